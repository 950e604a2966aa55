//! The store on its database.

use sqlx::migrate;

use crate::database::{self, Pool, Schema};

/// Why the outbox cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its tables.
    #[error("outbox: {0}")]
    Schema(#[source] database::Error),
    /// A statement; [`database::fate`] says what it means.
    #[error("outbox: the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// No such row.
    #[error("outbox: there is no row {0}")]
    Unknown(i64),
}

/// The outbox in one database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) pool: Pool,
}

impl Store {
    /// The outbox in the database of `pool`, its tables brought up to date.
    ///
    /// # Errors
    /// [`Error::Schema`] when they cannot be, or the database does not answer.
    pub async fn open(pool: Pool) -> Result<Self, Error> {
        let store = Self::new(pool);
        store.migrate().await?;
        Ok(store)
    }

    /// The same without a look at the database.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Brings its tables up to date; programs that do so at the same time wait for each other.
    ///
    /// # Errors
    /// [`Error::Schema`] when they cannot be, or the database does not answer.
    pub async fn migrate(&self) -> Result<(), Error> {
        let schema = Schema {
            applied: "outbox_migrations",
            sqlite: migrate!("src/outbox/migrations/sqlite"),
            postgres: migrate!("src/outbox/migrations/postgres"),
            mysql: migrate!("src/outbox/migrations/mysql"),
        };
        self.pool.migrate(schema).await.map_err(Error::Schema)
    }

    /// Its database.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}
