//! The inbox: which events a durable has handled, in the database that the handlers write to.
//!
//! It does not know messages or NATS. The database is SQLite; the statements and the schema in `migrations/` keep to SQL that
//! PostgreSQL and MySQL share.
//!
//! Invariant: the row of an event and what its handler wrote are committed together or not at all. The row is the first
//! thing that a transaction writes, so two replicas that have the same event never both run its handler to the end.

use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::{Sqlite, SqlitePool};

use crate::telemetry;

const ADD: &str = "INSERT INTO consumer_inbox (durable, event_id, handled_at_ms) VALUES (?, ?, ?)";
/// The last of the oldest rows that one statement removes.
const CUT: &str = "SELECT handled_at_ms FROM consumer_inbox WHERE durable = ? AND handled_at_ms < ? \
     ORDER BY handled_at_ms LIMIT 1 OFFSET ?";
const REMOVE: &str = "DELETE FROM consumer_inbox WHERE durable = ? AND handled_at_ms < ?";
/// Rows that one statement removes, so that it locks nobody out for long.
const BATCH: i64 = 1_000;

/// The transaction that a handler writes in. It commits with the event's row in the inbox when the handler is done.
pub type Transaction = sqlx::Transaction<'static, Sqlite>;

/// The inbox in one database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: SqlitePool,
}

/// Why the inbox cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error("inbox: cannot open the database")]
    Open(#[source] sqlx::Error),
    /// Its table.
    #[error("inbox: its table cannot be brought up to date")]
    Schema(#[source] MigrateError),
}

impl Inbox {
    /// The inbox in the database of `pool`; makes its table if there is none, in one transaction that keeps other programs
    /// out.
    ///
    /// # Errors
    /// [`Error::Open`] when the database does not answer, [`Error::Schema`] when its table is not what this version knows.
    pub async fn open(pool: SqlitePool) -> Result<Self, Error> {
        let mut migrator = sqlx::migrate!("src/consumer/migrations");
        // The service keeps tables with migrations of its own in the same database.
        migrator.dangerous_set_table_name("consumer_migrations");
        let begun = pool.begin_with("BEGIN IMMEDIATE").await;
        let mut transaction = begun.map_err(Error::Open)?;
        let migrated = migrator.run(&mut *transaction).await;
        migrated.map_err(Error::Schema)?;
        transaction.commit().await.map_err(Error::Open)?;
        Ok(Self { pool })
    }

    /// Begins the handling of an event; nothing if it was handled before.
    pub(super) async fn admit(
        &self,
        durable: &str,
        event_id: &str,
    ) -> Result<Option<Transaction>, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        let added = sqlx::query(ADD)
            .bind(durable)
            .bind(event_id)
            .bind(now_ms())
            .execute(&mut *transaction)
            .await;
        match added {
            Ok(_) => Ok(Some(transaction)),
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Forgets what was handled longer ago than `retention`; gives how many events.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn purge(
        &self,
        durable: &str,
        retention: Duration,
    ) -> Result<u64, sqlx::Error> {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let end = now_ms().saturating_sub(retention);
        let mut purged = 0;
        loop {
            let cut: Option<i64> = sqlx::query_scalar(CUT)
                .bind(durable)
                .bind(end)
                .bind(BATCH)
                .fetch_optional(&self.pool)
                .await?;
            // Rows of one millisecond go together: a batch of them alone would never end.
            let until = cut.map_or(end, |cut| cut.saturating_add(1).min(end));
            let removed = sqlx::query(REMOVE)
                .bind(durable)
                .bind(until)
                .execute(&self.pool)
                .await?;
            purged += removed.rows_affected();
            if cut.is_none() {
                return Ok(purged);
            }
        }
    }
}

fn now_ms() -> i64 {
    i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
