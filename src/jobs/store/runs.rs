//! Runs: what was asked for, what it said, what became of it; kept for a while.

use std::time::Duration;

use super::tables::ms;
use super::{Store, callbacks, lock};
use crate::database::Transaction;
use crate::jobs::error::Error;
use crate::jobs::run::{Ended, Line, Outcome, Request, Run};
use crate::jobs::statement::{Row, Value, execute, rows};

const ADD: &str = "INSERT INTO job_run (id, name, params, cause, node, outcome, message, \
     log_id, log_ms, queued_ms, started_ms, ended_ms, lease_until_ms) \
     SELECT ?, ?, ?, ?, ?, ?, '', ?, ?, {now}, CASE WHEN ? = 1 THEN {now} END, NULL, {now} + ?";
const SAY: &str = "INSERT INTO job_line (run_id, line_no, at_ms, content) \
     VALUES (?, ?, ?, ?) {or_nothing run_id}";
const END: &str = "UPDATE job_run SET outcome = ?, message = ?, ended_ms = {now} \
     WHERE id = ? AND ended_ms IS NULL";
const END_ABANDONED: &str = "UPDATE job_run SET outcome = ?, message = ?, ended_ms = {now} \
     WHERE id = ? AND ended_ms IS NULL AND lease_until_ms < {now}";
const KEEP: &str =
    "UPDATE job_run SET lease_until_ms = {now} + ? WHERE id = ? AND ended_ms IS NULL";
const ABANDONED: &str = "SELECT id FROM job_run WHERE ended_ms IS NULL AND lease_until_ms < {now} \
     ORDER BY id LIMIT 100";
const IDENTITY: &str = "SELECT log_id, log_ms FROM job_run WHERE id = ?";
const OLD: &str = "SELECT id FROM job_run WHERE ended_ms < {now} - ? ORDER BY ended_ms LIMIT 100";
const FORGET_LINES: &str = "DELETE FROM job_line WHERE run_id = ?";
const FORGET_RUN: &str = "DELETE FROM job_run WHERE id = ?";
const BY_ID: &str = "SELECT id, name, params, cause, node, outcome, message, queued_ms, started_ms, ended_ms \
     FROM job_run WHERE id = ?";
const BY_LOG: &str = "SELECT id, name, params, cause, node, outcome, message, queued_ms, started_ms, ended_ms \
     FROM job_run WHERE log_id = ? ORDER BY id DESC LIMIT 1";
/// The last runs of a job, or of all.
const LAST: &str = "SELECT id, name, params, cause, node, outcome, message, queued_ms, started_ms, ended_ms \
     FROM job_run WHERE name = COALESCE(?, name) ORDER BY queued_ms DESC, id DESC LIMIT ?";
const LINES: &str = "SELECT line_no, at_ms, content FROM job_line \
     WHERE run_id = ? AND line_no >= ? ORDER BY line_no LIMIT ?";

/// Of a message that is kept, and of one that is told.
const MESSAGE_CHARS_MAX: usize = 2_000;

impl Store {
    /// Writes that a run waits for its turn; this node has to keep it.
    pub(in crate::jobs) async fn enqueue(
        &self,
        request: &Request,
        node: &str,
    ) -> Result<(), Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            insert(&mut on, request, node, Outcome::Queued, self.lease_ms()).await?;
            on.commit().await
        })
        .await
    }

    /// Keeps a run that waits for another lease.
    pub(in crate::jobs) async fn keep(&self, id: &str) -> Result<(), Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            execute(&mut on, KEEP, &[self.lease_ms().into(), id.into()]).await?;
            on.commit().await
        })
        .await
    }

    /// Adds lines to what a run said.
    pub(in crate::jobs) async fn say(&self, id: &str, lines: &[Line]) -> Result<(), Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            write(&mut on, id, lines).await?;
            on.commit().await
        })
        .await
    }

    /// Ends a run: its last lines, what became of it, the lock free, and a result for XXL-JOB if that wanted it. One that has
    /// ended already stays as it is.
    pub(in crate::jobs) async fn end(
        &self,
        id: &str,
        ended: &Ended,
        lines: &[Line],
    ) -> Result<(), Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            lock::release(&mut on, id).await?;
            write(&mut on, id, lines).await?;
            end(&mut on, id, ended, END).await?;
            on.commit().await
        })
        .await
    }

    /// Ends runs whose node is gone; gives how many. Their locks stay as they are: they have run out as well, and that they were
    /// not released tells the next one that its job is due.
    pub(in crate::jobs) async fn sweep(&self) -> Result<usize, Error> {
        let ended = Ended {
            outcome: Outcome::Lost,
            message: "its node is gone".to_owned(),
        };
        self.within(async {
            let mut on = self.pool.begin().await?;
            let abandoned = rows(&mut on, ABANDONED, &[]).await?;
            for row in &abandoned {
                end(&mut on, &row.get::<String>(0)?, &ended, END_ABANDONED).await?;
            }
            on.commit().await?;
            Ok(abandoned.len())
        })
        .await
    }

    /// Forgets runs that ended longer ago than `retention`, in batches; gives how many.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn purge(&self, retention: Duration) -> Result<usize, Error> {
        let mut purged = 0;
        loop {
            let batch = self.within(async {
                let mut on = self.pool.begin().await?;
                let old = rows(&mut on, OLD, &[ms(retention).into()]).await?;
                for row in &old {
                    let id: String = row.get(0)?;
                    execute(&mut on, FORGET_LINES, &[(&*id).into()]).await?;
                    execute(&mut on, FORGET_RUN, &[(&*id).into()]).await?;
                }
                on.commit().await?;
                Ok(old.len())
            });
            match batch.await? {
                0 => return Ok(purged),
                count => purged += count,
            }
        }
    }

    /// One run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn run(&self, id: &str) -> Result<Option<Run>, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let rows = rows(&mut on, BY_ID, &[id.into()]).await?;
            on.rollback().await?;
            rows.first().map(read).transpose()
        })
        .await
    }

    /// The run that XXL-JOB knows by this number.
    pub(in crate::jobs) async fn run_of_log(&self, log_id: i64) -> Result<Option<Run>, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let rows = rows(&mut on, BY_LOG, &[log_id.into()]).await?;
            on.rollback().await?;
            rows.first().map(read).transpose()
        })
        .await
    }

    /// The last runs of a job, or of all, the newest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn runs(&self, name: Option<&str>, limit: i64) -> Result<Vec<Run>, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let name = Value::Text(name);
            let rows = rows(&mut on, LAST, &[name, limit.into()]).await?;
            on.rollback().await?;
            rows.iter().map(read).collect()
        })
        .await
    }

    /// At most `limit` lines of a run, from number `from` on.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn lines(&self, id: &str, from: i64, limit: i64) -> Result<Vec<Line>, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let rows = rows(&mut on, LINES, &[id.into(), from.into(), limit.into()]).await?;
            on.rollback().await?;
            let line = |row: &Row| {
                Ok(Line {
                    number: row.get(0)?,
                    at_ms: row.get(1)?,
                    text: row.get(2)?,
                })
            };
            rows.iter().map(line).collect()
        })
        .await
    }
}

pub(super) async fn insert(
    on: &mut Transaction,
    request: &Request,
    node: &str,
    outcome: Outcome,
    lease_ms: i64,
) -> Result<(), sqlx::Error> {
    let log = request.cause.log();
    let is_running = i64::from(outcome == Outcome::Running);
    let values = [
        (&*request.id).into(),
        (&*request.name).into(),
        (&*request.params).into(),
        request.cause.as_str().into(),
        node.into(),
        outcome.as_str().into(),
        log.map(|log| log.id).into(),
        log.map(|log| log.ms).into(),
        is_running.into(),
        lease_ms.into(),
    ];
    execute(on, ADD, &values).await.map(drop)
}

async fn write(on: &mut Transaction, id: &str, lines: &[Line]) -> Result<(), sqlx::Error> {
    for line in lines {
        let values = [
            id.into(),
            line.number.into(),
            line.at_ms.into(),
            (&*line.text).into(),
        ];
        execute(on, SAY, &values).await?;
    }
    Ok(())
}

async fn end(
    on: &mut Transaction,
    id: &str,
    ended: &Ended,
    sql: &'static str,
) -> Result<(), sqlx::Error> {
    let message: String = ended.message.chars().take(MESSAGE_CHARS_MAX).collect();
    let values = [ended.outcome.as_str().into(), (&*message).into(), id.into()];
    if execute(on, sql, &values).await? == 0 {
        return Ok(());
    }
    let rows = rows(on, IDENTITY, &[id.into()]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    if let (Some(log_id), Some(log_ms)) = (row.get(0)?, row.get(1)?) {
        callbacks::add(on, id, (log_id, log_ms), ended.outcome, &message).await?;
    }
    Ok(())
}

fn read(row: &Row) -> Result<Run, sqlx::Error> {
    let outcome: String = row.get(5)?;
    Ok(Run {
        id: row.get(0)?,
        name: row.get(1)?,
        params: row.get(2)?,
        cause: row.get(3)?,
        node: row.get(4)?,
        // A newer version may know more of them.
        outcome: Outcome::named(&outcome).unwrap_or(Outcome::Failed),
        message: row.get(6)?,
        queued_ms: row.get(7)?,
        started_ms: row.get(8)?,
        ended_ms: row.get(9)?,
    })
}
