//! The inbox: which events a durable has handled, in the database that the handlers write to.
//!
//! It does not know messages or NATS.
//!
//! Invariant: the row of an event and what its handler wrote are committed together or not at all. The row is the first
//! thing that a transaction writes, so two replicas that have the same event never both run its handler to the end.

use std::time::Duration;

use crate::database::{self, Fate, Pool, Schema, Transaction, fate, on, within};
use crate::telemetry;

const ADD: &str = "INSERT INTO consumer_inbox (durable, event_id, handled_at_ms) VALUES (?, ?, ?)";
/// The last of the oldest rows that one statement removes.
const CUT: &str = "SELECT handled_at_ms FROM consumer_inbox WHERE durable = ? AND handled_at_ms < ? \
     ORDER BY handled_at_ms LIMIT 1 OFFSET ?";
const REMOVE: &str = "DELETE FROM consumer_inbox WHERE durable = ? AND handled_at_ms < ?";
/// Rows that one statement removes, so that it locks nobody out for long.
const BATCH: i64 = 1_000;

/// The inbox in one database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: Pool,
    /// Of one statement: longer than any lock is waited for.
    limit: Duration,
}

impl Inbox {
    /// The inbox in the database of `pool`; makes its table if there is none. Programs that do so at the same time wait for each
    /// other.
    ///
    /// # Errors
    /// When the database does not answer, or its table is not what this version knows; [`database::Error::fate`] tells which.
    pub async fn open(pool: Pool) -> Result<Self, database::Error> {
        let schema = Schema {
            applied: "consumer_migrations",
            sqlite: sqlx::migrate!("src/consumer/migrations/sqlite"),
            postgres: sqlx::migrate!("src/consumer/migrations/postgres"),
            mysql: sqlx::migrate!("src/consumer/migrations/mysql"),
        };
        pool.migrate(schema).await?;
        let limit = 2 * pool.busy_timeout();
        Ok(Self { pool, limit })
    }

    /// Begins the handling of an event; nothing if it was handled before. While another has it in hand, that one is waited for.
    ///
    /// # Errors
    /// The database's; of one that is [`Refused`](Fate::Refused) the database does not take the event's id.
    pub async fn admit(
        &self,
        durable: &str,
        event_id: &str,
    ) -> Result<Option<Transaction>, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        let sql = self.pool.kind().statement(ADD);
        let added = on!(Transaction, &mut transaction, Sql, on => {
            let add = sqlx::query::<Sql>(sql).bind(durable).bind(event_id).bind(now_ms());
            within(self.limit, add.execute(&mut **on)).await.map(drop)
        });
        match added {
            Ok(()) => Ok(Some(transaction)),
            Err(error) if fate(&error) == Fate::Duplicate => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Forgets what was handled longer ago than `retention`; gives how many events.
    ///
    /// # Errors
    /// The database's.
    pub async fn purge(&self, durable: &str, retention: Duration) -> Result<u64, sqlx::Error> {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let end = now_ms().saturating_sub(retention);
        let mut purged = 0;
        loop {
            let (cut, removed) = within(self.limit, self.purge_batch(durable, end)).await?;
            purged += removed;
            if cut.is_none() {
                return Ok(purged);
            }
        }
    }

    /// Where it ended if there may be more, and how many it removed.
    async fn purge_batch(
        &self,
        durable: &str,
        end: i64,
    ) -> Result<(Option<i64>, u64), sqlx::Error> {
        let kind = self.pool.kind();
        on!(Pool, &self.pool, Sql, pool => {
            let cut = sqlx::query_scalar::<Sql, i64>(kind.statement(CUT));
            let cut = cut.bind(durable).bind(end).bind(BATCH).fetch_optional(pool).await?;
            // Rows of one millisecond go together: a batch of them alone would never end.
            let until = cut.map_or(end, |cut| cut.saturating_add(1).min(end));
            let remove = sqlx::query::<Sql>(kind.statement(REMOVE));
            let removed = remove.bind(durable).bind(until).execute(pool).await?;
            Ok((cut, removed.rows_affected()))
        })
    }
}

fn now_ms() -> i64 {
    i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX)
}
