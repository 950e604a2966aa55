//! Connections to one database.

use std::time::Duration;

use sqlx::mysql::MySqlPool;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::{Config, Error, Transaction, session, within};

/// Which database it is; a statement may need a form for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

impl Kind {
    /// A statement whose values are marked `?`, as this database marks them; `?` is nothing else in it.
    #[must_use]
    pub fn statement(self, sql: &'static str) -> SqlStr {
        if self != Self::Postgres {
            return sql.into_sql_str();
        }
        let mut parts = sql.split('?');
        let mut numbered = parts.next().unwrap_or_default().to_owned();
        for (number, part) in (1..).zip(parts) {
            numbered.push_str(&format!("${number}{part}"));
        }
        AssertSqlSafe(numbered).into_sql_str()
    }
}

/// A pool of connections to one database; cheap to clone.
#[derive(Debug, Clone)]
pub enum Pool {
    /// SQLite.
    Sqlite(SqlitePool),
    /// PostgreSQL.
    Postgres(PgPool),
    /// MySQL or MariaDB.
    MySql(MySqlPool),
}

impl Pool {
    /// A pool on the database of `config`. A SQLite file and its folder are made if they are missing; a server is connected to when
    /// it is needed first, so that one that is away is no error here.
    ///
    /// # Errors
    /// [`Error::Url`] for another kind of URL, [`Error::Folder`] or [`Error::Open`] when it cannot be used.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let url = &*config.url;
        match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "sqlite" => session::sqlite(url, config).await.map(Self::Sqlite),
            "postgres" | "postgresql" => session::postgres(url, config).map(Self::Postgres),
            "mysql" | "mariadb" => session::mysql(url, config).map(Self::MySql),
            scheme => Err(Error::Url(scheme.to_owned())),
        }
    }

    /// Which database it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Sqlite(_) => Kind::Sqlite,
            Self::Postgres(_) => Kind::Postgres,
            Self::MySql(_) => Kind::MySql,
        }
    }

    /// Begins a transaction that is going to write. It waits for a free connection and then for another writer, each no longer
    /// than `busy_timeout_ms`.
    ///
    /// # Errors
    /// The database's; [`fate`](super::fate) says what it means.
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        let begun = async {
            match self {
                // One that reads first and then finds another writer before it could only fail.
                Self::Sqlite(pool) => pool
                    .begin_with("BEGIN IMMEDIATE")
                    .await
                    .map(Transaction::Sqlite),
                Self::Postgres(pool) => pool.begin().await.map(Transaction::Postgres),
                Self::MySql(pool) => pool.begin().await.map(Transaction::MySql),
            }
        };
        // SQLite has its own limits, which come first. Boxed: three pools' futures are large together.
        within(3 * self.busy_timeout(), Box::pin(begun)).await
    }

    /// Closes all connections; those that are in use when they are given back, which is waited for no longer than
    /// `busy_timeout_ms`.
    pub async fn close(&self) {
        let closed = async {
            match self {
                Self::Sqlite(pool) => pool.close().await,
                Self::Postgres(pool) => pool.close().await,
                Self::MySql(pool) => pool.close().await,
            }
            Ok(())
        };
        if let Err(error) = within(self.busy_timeout(), closed).await {
            tracing::warn!(%error, "connections to the database are not closed in good order");
        }
    }

    /// How long a free connection is waited for, and then another writer or a lock.
    #[must_use]
    pub fn busy_timeout(&self) -> Duration {
        match self {
            Self::Sqlite(pool) => pool.options().get_acquire_timeout(),
            Self::Postgres(pool) => pool.options().get_acquire_timeout(),
            Self::MySql(pool) => pool.options().get_acquire_timeout(),
        }
    }
}
