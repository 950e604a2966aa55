//! The lock of a job: read and taken in one transaction by the database's clock, renewed, released with the end of its run.
//!
//! Whoever does not renew it loses it; so a node that was killed leaves the job to another after the lease.

use std::time::Duration;

use super::Store;
use super::tables::ms;
use crate::database::Transaction;
use crate::jobs::error::Error;
use crate::jobs::run::{Cause, Outcome, Request};
use crate::jobs::statement::{execute, rows};

const ADD: &str = "INSERT INTO job_lock (name, owner, lease_until_ms, started_ms) \
     VALUES (?, '', 0, 0) {or_nothing name}";
const LOOK: &str = "SELECT owner, lease_until_ms - {now}, {now} - started_ms FROM job_lock \
     WHERE name = ? {lock}";
const TAKE: &str = "UPDATE job_lock SET owner = ?, lease_until_ms = {now} + ?, started_ms = {now} \
     WHERE name = ?";
const HOLD: &str = "UPDATE job_lock SET lease_until_ms = {now} + ? WHERE name = ? AND owner = ?";
const RELEASE: &str = "UPDATE job_lock SET owner = '', lease_until_ms = 0 WHERE owner = ?";
const START: &str = "UPDATE job_run SET outcome = 'running', started_ms = {now}, \
     lease_until_ms = {now} + ? WHERE id = ? AND ended_ms IS NULL";
const RENEW: &str =
    "UPDATE job_run SET lease_until_ms = {now} + ? WHERE id = ? AND ended_ms IS NULL";

/// What came of asking for the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jobs) enum Begun {
    /// It is this run's.
    Ours,
    /// Another run has it.
    Busy { owner: String },
    /// It ran lately, and is due so much later.
    NotDue { after: Duration },
}

impl Store {
    /// Takes the lock for a run and writes that it runs, or says why not.
    pub(in crate::jobs) async fn begin(
        &self,
        request: &Request,
        node: &str,
    ) -> Result<Begun, Error> {
        let lease_ms = self.lease_ms();
        let apart_ms = match request.cause {
            Cause::Schedule(apart) => ms(apart),
            Cause::Cli | Cause::Http | Cause::Xxl(_) => 0,
        };
        let (id, name) = (&*request.id, &*request.name);
        self.within(async {
            let mut on = self.pool.begin().await?;
            let found = match look(&mut on, name, apart_ms).await? {
                Some(found) => found,
                None => {
                    // Who has looked for a row in vain is in the way of those who add it, so not in the same transaction.
                    on.rollback().await?;
                    on = self.pool.begin().await?;
                    execute(&mut on, ADD, &[name.into()]).await?;
                    let found = look(&mut on, name, apart_ms).await?;
                    found.ok_or(sqlx::Error::RowNotFound)?
                }
            };
            if found != Begun::Ours {
                on.commit().await?;
                return Ok(found);
            }
            let take = [id.into(), lease_ms.into(), name.into()];
            execute(&mut on, TAKE, &take).await?;
            // One that waited in a queue has its row already.
            if execute(&mut on, START, &[lease_ms.into(), id.into()]).await? == 0 {
                super::runs::insert(&mut on, request, node, Outcome::Running, lease_ms).await?;
            }
            on.commit().await?;
            Ok(Begun::Ours)
        })
        .await
    }

    /// Keeps the lock for another lease: whether it was still this run's.
    pub(in crate::jobs) async fn renew(&self, request: &Request) -> Result<bool, Error> {
        let lease_ms = self.lease_ms();
        let (id, name) = (&*request.id, &*request.name);
        self.within(async {
            let mut on = self.pool.begin().await?;
            let is_ours = hold(&mut on, name, id, self.lease()).await?;
            let is_open = execute(&mut on, RENEW, &[lease_ms.into(), id.into()]).await? == 1;
            on.commit().await?;
            Ok(is_ours && is_open)
        })
        .await
    }
}

/// Renews the lock in a job's own transaction: whether it is the run's. Nobody else can take it before that transaction ends, so
/// what is written in it is the lock holder's.
pub(in crate::jobs) async fn hold(
    on: &mut Transaction,
    name: &str,
    id: &str,
    lease: Duration,
) -> Result<bool, sqlx::Error> {
    Ok(execute(on, HOLD, &[ms(lease).into(), name.into(), id.into()]).await? == 1)
}

/// Locks come before runs in every transaction, or two could wait for each other.
pub(super) async fn release(on: &mut Transaction, id: &str) -> Result<(), sqlx::Error> {
    execute(on, RELEASE, &[id.into()]).await.map(drop)
}

/// Whether the lock may be taken, if there is one; it stays as it is until the transaction ends.
async fn look(
    on: &mut Transaction,
    name: &str,
    apart_ms: i64,
) -> Result<Option<Begun>, sqlx::Error> {
    let rows = rows(on, LOOK, &[name.into()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (owner, left_ms, ago_ms): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    if left_ms >= 0 {
        return Ok(Some(Begun::Busy { owner }));
    }
    // An owner who did not release it is gone, and what it did not finish is due whenever it began.
    let wait_ms = u64::try_from(apart_ms - ago_ms).unwrap_or(0);
    Ok(Some(match owner.is_empty() && wait_ms > 0 {
        true => Begun::NotDue {
            after: Duration::from_millis(wait_ms),
        },
        false => Begun::Ours,
    }))
}
