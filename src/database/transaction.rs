//! A transaction on whichever database it is.

use sqlx::{MySql, Postgres, Sqlite};

/// What is written in it is kept with [`commit`](Self::commit), or not at all.
#[derive(Debug)]
pub enum Transaction {
    /// On SQLite.
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    /// On PostgreSQL.
    Postgres(sqlx::Transaction<'static, Postgres>),
    /// On MySQL or MariaDB.
    MySql(sqlx::Transaction<'static, MySql>),
}

impl Transaction {
    /// Keeps everything that was written.
    ///
    /// # Errors
    /// The database's; of one that is [`Unavailable`](super::Fate::Unavailable) it is not known whether it did.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
            Self::Postgres(transaction) => transaction.commit().await,
            Self::MySql(transaction) => transaction.commit().await,
        }
    }

    /// Keeps nothing; the same as dropping it, but the connection is free at once.
    ///
    /// # Errors
    /// The database's.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.rollback().await,
            Self::Postgres(transaction) => transaction.rollback().await,
            Self::MySql(transaction) => transaction.rollback().await,
        }
    }
}
