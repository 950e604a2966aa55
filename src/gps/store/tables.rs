//! The tables in whichever database it is.

use uuid::Uuid;

use super::cursor::{self, Cursor};
use super::history;
use super::row::Row;
use super::sqlite::Known;
use super::{mysql, postgres, sqlite};
use crate::database::{Error, Pool, Schema, Transaction};
use crate::device::DeviceId;

/// The tables; cheap to clone.
#[derive(Debug, Clone)]
pub struct Tables {
    pub(super) pool: Pool,
}

impl Tables {
    /// The tables in the database of this pool; nothing is asked yet.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Makes them, or brings them up to date.
    ///
    /// # Errors
    /// As [`Pool::migrate`].
    pub async fn migrate(&self) -> Result<(), Error> {
        let schema = Schema {
            applied: "gps_migrations",
            sqlite: sqlx::migrate!("src/gps/migrations/sqlite"),
            postgres: sqlx::migrate!("src/gps/migrations/postgres"),
            mysql: sqlx::migrate!("src/gps/migrations/mysql"),
        };
        // Boxed: its future is large, and is a part of each that looks after the tables.
        Box::pin(self.pool.migrate(schema)).await
    }

    /// The cursor of a shard; none before its first batch.
    ///
    /// # Errors
    /// The database's.
    pub async fn cursor(&self, shard: i32) -> Result<Option<Cursor>, sqlx::Error> {
        cursor::read(&self.pool, shard).await
    }

    /// The cursors of all shards that have one.
    ///
    /// # Errors
    /// The database's.
    pub async fn cursors(&self) -> Result<Vec<Cursor>, sqlx::Error> {
        cursor::read_all(&self.pool).await
    }

    /// Begins a batch.
    ///
    /// # Errors
    /// The database's.
    pub async fn begin(&self) -> Result<Batch, sqlx::Error> {
        self.pool
            .begin()
            .await
            .map(|transaction| Batch { transaction })
    }

    /// Makes room for reports that were received on these days since 1970; only PostgreSQL needs that.
    ///
    /// # Errors
    /// The database's.
    pub async fn make_room(&self, days: impl Iterator<Item = i64>) -> Result<(), sqlx::Error> {
        match &self.pool {
            Pool::Postgres(pool) => history::make_partitions(pool, days).await,
            Pool::Sqlite(_) | Pool::MySql(_) => Ok(()),
        }
    }

    /// Removes a bounded part of the reports that were received before, Unix milliseconds; whether there may be more.
    ///
    /// # Errors
    /// The database's.
    pub async fn purge(&self, before_ms: u64) -> Result<bool, sqlx::Error> {
        history::purge(&self.pool, before_ms).await
    }
}

/// One transaction. What is written is kept with [`commit`](Self::commit), or not at all.
#[derive(Debug)]
pub struct Batch {
    /// For what else is written with it.
    pub transaction: Transaction,
}

macro_rules! on {
    ($self:expr, $function:ident, $($argument:expr),*) => {
        match &mut $self.transaction {
            Transaction::Sqlite(connection) => sqlite::$function(connection, $($argument),*).await,
            Transaction::Postgres(connection) => postgres::$function(connection, $($argument),*).await,
            Transaction::MySql(connection) => mysql::$function(connection, $($argument),*).await,
        }
    };
}

impl Batch {
    /// Moves the cursor of a shard from where it was, none for its first time; whether it was there.
    ///
    /// # Errors
    /// The database's.
    pub async fn advance(
        &mut self,
        shard: i32,
        from: Option<&Cursor>,
        to: &Cursor,
    ) -> Result<bool, sqlx::Error> {
        cursor::advance(&mut self.transaction, shard, from, to).await
    }

    /// When the latest fix of each device was that has one: product, name, Unix milliseconds.
    ///
    /// # Errors
    /// The database's.
    pub async fn latest(&mut self, devices: &[&DeviceId]) -> Result<Known<i64>, sqlx::Error> {
        on!(self, latest, devices)
    }

    /// The tracks of these devices that have one: product, name, JSON.
    ///
    /// # Errors
    /// The database's.
    pub async fn tracks(&mut self, devices: &[&DeviceId]) -> Result<Known<String>, sqlx::Error> {
        on!(self, tracks, devices)
    }

    /// Which of these reports are there.
    ///
    /// # Errors
    /// The database's.
    pub async fn present(&mut self, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
        on!(self, present, ids)
    }

    /// Writes reports; those that are there stay as they are.
    ///
    /// # Errors
    /// The database's.
    pub async fn insert(&mut self, rows: &[Row]) -> Result<(), sqlx::Error> {
        on!(self, insert, rows)
    }

    /// Moves the latest positions to these, where they are newer; at most one a device.
    ///
    /// # Errors
    /// The database's.
    pub async fn move_latest(&mut self, rows: &[&Row]) -> Result<(), sqlx::Error> {
        on!(self, move_latest, rows)
    }

    /// Writes tracks, as JSON; at most one a device.
    ///
    /// # Errors
    /// The database's.
    pub async fn put_tracks(&mut self, tracks: &[(DeviceId, String)]) -> Result<(), sqlx::Error> {
        on!(self, put_tracks, tracks)
    }

    /// Keeps everything.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }

    /// Keeps nothing.
    ///
    /// # Errors
    /// The database's.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.transaction.rollback().await
    }
}
