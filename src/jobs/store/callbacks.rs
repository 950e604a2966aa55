//! Results of runs that XXL-JOB wanted and has not taken yet: they outlive the node that has them to tell.

use std::time::Duration;

use super::Store;
use super::tables::ms;
use crate::database::Transaction;
use crate::jobs::error::Error;
use crate::jobs::run::Outcome;
use crate::jobs::statement::{Row, execute, rows};

const ADD: &str = "INSERT INTO job_callback (run_id, log_id, log_ms, code, message, created_ms, due_ms) \
     SELECT ?, ?, ?, ?, ?, {now}, 0";
const DUE: &str = "SELECT run_id, log_id, log_ms, code, message FROM job_callback \
     WHERE due_ms <= {now} ORDER BY due_ms LIMIT 100";
const CLAIM: &str =
    "UPDATE job_callback SET due_ms = {now} + ? WHERE run_id = ? AND due_ms <= {now}";
const TAKEN: &str = "DELETE FROM job_callback WHERE run_id = ?";
const FORGET: &str = "DELETE FROM job_callback WHERE created_ms < {now} - ?";

/// A result that has to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jobs) struct Callback {
    pub(in crate::jobs) run: String,
    pub(in crate::jobs) log_id: i64,
    pub(in crate::jobs) log_ms: i64,
    /// 200 done, 502 ended by its limit, 500 all else.
    pub(in crate::jobs) code: i64,
    pub(in crate::jobs) message: String,
}

impl Store {
    /// Results that are due; nobody else is given them before `again` is over.
    pub(in crate::jobs) async fn claim_callbacks(
        &self,
        again: Duration,
    ) -> Result<Vec<Callback>, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let mut claimed = Vec::new();
            for row in rows(&mut on, DUE, &[]).await? {
                let callback = read(&row)?;
                let claim = [ms(again).into(), (&*callback.run).into()];
                if execute(&mut on, CLAIM, &claim).await? == 1 {
                    claimed.push(callback);
                }
            }
            on.commit().await?;
            Ok(claimed)
        })
        .await
    }

    /// XXL-JOB has these.
    pub(in crate::jobs) async fn callbacks_taken(
        &self,
        callbacks: &[Callback],
    ) -> Result<(), Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            for callback in callbacks {
                execute(&mut on, TAKEN, &[(&*callback.run).into()]).await?;
            }
            on.commit().await
        })
        .await
    }

    /// Forgets results that nobody has taken for so long; gives how many.
    pub(in crate::jobs) async fn forget_callbacks(&self, after: Duration) -> Result<u64, Error> {
        self.within(async {
            let mut on = self.pool.begin().await?;
            let forgotten = execute(&mut on, FORGET, &[ms(after).into()]).await?;
            on.commit().await?;
            Ok(forgotten)
        })
        .await
    }
}

pub(super) async fn add(
    on: &mut Transaction,
    run: &str,
    (log_id, log_ms): (i64, i64),
    outcome: Outcome,
    message: &str,
) -> Result<(), sqlx::Error> {
    let code: i64 = match outcome {
        Outcome::Done => 200,
        Outcome::Timeout => 502,
        _ => 500,
    };
    let values = [
        run.into(),
        log_id.into(),
        log_ms.into(),
        code.into(),
        message.into(),
    ];
    execute(on, ADD, &values).await.map(drop)
}

fn read(row: &Row) -> Result<Callback, sqlx::Error> {
    Ok(Callback {
        run: row.get(0)?,
        log_id: row.get(1)?,
        log_ms: row.get(2)?,
        code: row.get(3)?,
        message: row.get(4)?,
    })
}
