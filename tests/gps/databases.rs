//! A database of each kind, empty, and what is in its tables.

use jetway::database::{Config, Pool};
use sqlx::AssertSqlSafe;
use tempfile::TempDir;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::support::{MariaDb, Postgres};

/// The kinds that every test of the tables runs on.
pub(crate) const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::MariaDb];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// One database of a test's own.
pub(crate) struct Database {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    pub(crate) pool: Pool,
    _folder: Option<TempDir>,
}

/// What a test compares of a row of `gps_report`.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub(crate) struct Report {
    pub(crate) event_id: Uuid,
    pub(crate) device: String,
    pub(crate) at_ms: i64,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
    pub(crate) altitude_m: Option<f64>,
    pub(crate) flags: i32,
    pub(crate) late: bool,
    pub(crate) sequence: i64,
    pub(crate) point: i32,
}

/// What a test compares of a row of the outbox.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub(crate) struct Event {
    pub(crate) event_id: Uuid,
    pub(crate) event_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
}

pub(crate) static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
pub(crate) static MARIADB: OnceCell<MariaDb> = OnceCell::const_new();

/// Runs a query on whichever database it is.
macro_rules! on {
    ($pool:expr, |$inner:ident| $query:expr) => {
        match $pool {
            Pool::Sqlite($inner) => $query,
            Pool::Postgres($inner) => $query,
            Pool::MySql($inner) => $query,
        }
    };
}

impl Database {
    /// An empty one, on the server that all tests share.
    pub(crate) async fn new(kind: Kind) -> Self {
        let name = format!("t{}", Uuid::now_v7().simple());
        let (url, folder) = match kind {
            Kind::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("gps.db");
                (format!("sqlite:{}", file.display()), Some(folder))
            }
            Kind::Postgres => {
                let server = POSTGRES.get_or_init(Postgres::start).await;
                (server.database(&name).await, None)
            }
            Kind::MariaDb => {
                let server = MARIADB.get_or_init(MariaDb::start).await;
                (server.database(&name).await, None)
            }
        };
        Self::at(kind, url, folder).await
    }

    /// One that is there.
    pub(crate) async fn at(kind: Kind, url: String, folder: Option<TempDir>) -> Self {
        let config = Config {
            url: url.clone(),
            ..Config::default()
        };
        Self {
            kind,
            pool: Pool::open(&config).await.unwrap(),
            url,
            _folder: folder,
        }
    }

    /// All reports in the order of their messages.
    pub(crate) async fn reports(&self) -> Vec<Report> {
        self.try_reports().await.unwrap()
    }

    /// The same, from a server that may be away.
    pub(crate) async fn try_reports(&self) -> Result<Vec<Report>, sqlx::Error> {
        let device = match self.kind {
            Kind::MariaDb => "CONVERT(CONCAT(product_id, '/', device_name) USING utf8mb4)",
            Kind::Sqlite | Kind::Postgres => "product_id || '/' || device_name",
        };
        let query = format!(
            "SELECT event_id, {device} AS device, at_ms, latitude, longitude, altitude_m, flags, late, sequence, point \
             FROM gps_report ORDER BY sequence, point"
        );
        on!(&self.pool, |pool| sqlx::query_as(AssertSqlSafe(query))
            .fetch_all(pool)
            .await)
    }

    /// Runs a statement.
    pub(crate) async fn execute(&self, statement: &str) -> u64 {
        let statement = AssertSqlSafe(statement.to_owned());
        on!(&self.pool, |pool| sqlx::raw_sql(statement)
            .execute(pool)
            .await
            .unwrap()
            .rows_affected())
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.try_number(query).await.unwrap()
    }

    /// The same, from a server that may be away.
    pub(crate) async fn try_number(&self, query: &str) -> Result<i64, sqlx::Error> {
        let query = AssertSqlSafe(query.to_owned());
        on!(&self.pool, |pool| sqlx::query_scalar(query)
            .fetch_one(pool)
            .await)
    }

    /// Cuts every other connection to the database; MariaDB.
    pub(crate) async fn kill_others(&self) {
        let Pool::MySql(pool) = &self.pool else {
            return;
        };
        let others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        let others: Vec<i64> = sqlx::query_scalar(others).fetch_all(pool).await.unwrap();
        for id in others {
            // It may have ended meanwhile.
            drop(
                sqlx::raw_sql(AssertSqlSafe(format!("KILL {id}")))
                    .execute(pool)
                    .await,
            );
        }
    }

    /// All events of the outbox in the order of their ids.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let query = "SELECT event_id, event_type, aggregate_id, subject, payload FROM outbox_event ORDER BY id";
        on!(&self.pool, |pool| sqlx::query_as(query)
            .fetch_all(pool)
            .await
            .unwrap())
    }
}
