//! The catalogue on its database.

use super::error::Error;
use super::sealing::Keys;
#[cfg(test)]
use crate::database::Transaction;
use crate::database::{self, Pool, Schema};

/// The catalogue in one database; a cheap handle on one pool of connections.
#[derive(Debug, Clone)]
pub struct Catalogue {
    pub(super) pool: Pool,
    pub(super) keys: Keys,
}

impl Catalogue {
    /// Opens the database and makes its tables, or brings them up to date.
    ///
    /// It has no keys: new secrets are stored as they are, and those that are sealed do not open.
    ///
    /// # Errors
    /// [`Error::Open`] when there is none or it does not answer, or its tables are not ours or newer than this program.
    pub async fn open(config: &database::Config) -> Result<Self, Error> {
        let pool = Pool::open(config).await?;
        let schema = Schema {
            // The name that databases of earlier versions have.
            applied: "auth_migrations",
            sqlite: sqlx::migrate!("src/catalogue/migrations/sqlite"),
            postgres: sqlx::migrate!("src/catalogue/migrations/postgres"),
            mysql: sqlx::migrate!("src/catalogue/migrations/mysql"),
        };
        pool.migrate(schema).await?;
        let keys = Keys::default();
        Ok(Self { pool, keys })
    }

    /// The same with keys for its secrets.
    #[must_use]
    pub fn sealed_with(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// The id of the key that secrets are sealed with; none when they are stored as they are.
    #[must_use]
    pub fn current_key(&self) -> Option<&str> {
        Some(self.keys.current()).filter(|id| !id.is_empty())
    }
}

#[cfg(test)]
impl Catalogue {
    /// Takes a connection out of the pool: with a pool of one, a database that does not answer.
    pub(crate) async fn hold(&self) -> Transaction {
        self.pool.begin().await.unwrap()
    }
}
