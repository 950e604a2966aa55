//! Connections to one database, and what is set on each.

use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions};

use super::error::{Fate, fate};
use super::{Config, Error, Transaction};

/// Between two tries to open a SQLite file that another program is just making.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

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
        match url.split(':').next().unwrap_or_default() {
            "sqlite" => open_sqlite(url, config).await.map(Self::Sqlite),
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url).map_err(Error::Open)?;
                let limit = config.busy_timeout_ms.to_string();
                let options = options
                    .application_name("jetway")
                    .options([("lock_timeout", &*limit)]);
                let pool = limits(PgPoolOptions::new(), config);
                Ok(Self::Postgres(pool.connect_lazy_with(options)))
            }
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(url).map_err(Error::Open)?;
                let pool = limits(MySqlPoolOptions::new(), config);
                Ok(Self::MySql(pool.connect_lazy_with(options)))
            }
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

    /// Begins a transaction that is going to write.
    ///
    /// # Errors
    /// The database's; [`fate`] says what it means.
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        match self {
            // One that reads first and then finds another writer before it could only fail.
            Self::Sqlite(pool) => pool
                .begin_with("BEGIN IMMEDIATE")
                .await
                .map(Transaction::Sqlite),
            Self::Postgres(pool) => pool.begin().await.map(Transaction::Postgres),
            Self::MySql(pool) => pool.begin().await.map(Transaction::MySql),
        }
    }

    /// Closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
            Self::MySql(pool) => pool.close().await,
        }
    }
}

fn limits<D: sqlx::Database>(pool: PoolOptions<D>, config: &Config) -> PoolOptions<D> {
    pool.max_connections(config.connections_max)
        .acquire_timeout(config.busy_timeout())
}

async fn open_sqlite(url: &str, config: &Config) -> Result<SqlitePool, Error> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(Error::Open)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(config.busy_timeout());
    if let Some(folder) = options.get_filename().parent() {
        fs::create_dir_all(folder).map_err(|source| Error::Folder(folder.into(), source))?;
    }
    let pool = limits(SqlitePoolOptions::new(), config)
        // A connection to a local file does not age, and the last one to leave would take a database in memory with it.
        .idle_timeout(None)
        .max_lifetime(None);
    let begun = Instant::now();
    loop {
        // Two programs that open a new file at once are in each other's way when they switch it to WAL: SQLite refuses one
        // without its usual waiting, so the waiting is here.
        match pool.clone().connect_with(options.clone()).await {
            Err(error)
                if fate(&error) == Fate::Conflict && begun.elapsed() < config.busy_timeout() =>
            {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            connected => return connected.map_err(Error::Open),
        }
    }
}
