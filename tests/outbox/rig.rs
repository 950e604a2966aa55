//! The databases, one test body for all of them, and events to write.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jetway::database::{Config, Kind, Pool, Transaction};
use jetway::event::derived_id;
use jetway::message::Headers;
use jetway::outbox::store::{Enqueue as _, Event, Policy, Store, Terms};
use sqlx::AssertSqlSafe;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::support::{MariaDb, Postgres};

pub(crate) const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::MySql];

/// A database of a test's own, with the outbox in it.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) store: Store,
    _folder: TempDir,
}

impl Database {
    pub(crate) async fn start(kind: Kind) -> Self {
        static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
        static MARIADB: OnceCell<MariaDb> = OnceCell::const_new();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        let name = format!("outbox_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = match kind {
            Kind::Sqlite => format!("sqlite:{}", folder.path().join("outbox.db").display()),
            Kind::Postgres => {
                let server = POSTGRES.get_or_init(Postgres::start).await;
                server.database(&name).await
            }
            Kind::MySql => {
                let server = MARIADB.get_or_init(MariaDb::start).await;
                server.database(&name).await
            }
        };
        Self::at(url, folder).await
    }

    /// The one of this URL; the folder goes away with it.
    pub(crate) async fn at(url: String, folder: TempDir) -> Self {
        let store = Store::open(pool(&url).await).await.unwrap();
        Self {
            url,
            store,
            _folder: folder,
        }
    }

    /// Writes events in a transaction of their own.
    pub(crate) async fn write(&self, events: &[Event]) {
        let mut transaction = self.store.pool().begin().await.unwrap();
        transaction.enqueue(events).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// Runs statements.
    pub(crate) async fn run(&self, text: &str) {
        let mut transaction = self.store.pool().begin().await.unwrap();
        run(&mut transaction, text).await.unwrap();
        transaction.commit().await.unwrap();
    }

    /// The numbers of a query, by row.
    pub(crate) async fn numbers(&self, text: &str) -> Vec<i64> {
        let text = AssertSqlSafe(text.to_owned());
        match self.store.pool() {
            Pool::Sqlite(pool) => sqlx::query_scalar(text).fetch_all(pool).await.unwrap(),
            Pool::Postgres(pool) => sqlx::query_scalar(text).fetch_all(pool).await.unwrap(),
            Pool::MySql(pool) => sqlx::query_scalar(text).fetch_all(pool).await.unwrap(),
        }
    }
}

pub(crate) async fn pool(url: &str) -> Pool {
    let config = Config {
        url: url.to_owned(),
        connections_max: 8,
        ..Config::default()
    };
    Pool::open(&config).await.unwrap()
}

pub(crate) async fn run(transaction: &mut Transaction, text: &str) -> Result<(), sqlx::Error> {
    let query = sqlx::raw_sql(AssertSqlSafe(text.to_owned()));
    match transaction {
        Transaction::Sqlite(transaction) => query.execute(&mut **transaction).await.map(drop),
        Transaction::Postgres(transaction) => query.execute(&mut **transaction).await.map(drop),
        Transaction::MySql(transaction) => query.execute(&mut **transaction).await.map(drop),
    }
}

/// A claim of so many rows of all shards, for long.
pub(crate) fn terms(rows_max: usize) -> Terms {
    Terms {
        rows_max,
        shards_max: 64,
        lease: Duration::from_secs(60),
    }
}

/// Dead after the third refusal, and nothing waits.
pub(crate) fn impatient() -> Policy {
    Policy {
        attempts_max: 3,
        backoff: vec![Duration::ZERO],
        pause: Duration::ZERO,
    }
}

/// The event `number` of a device.
pub(crate) fn event(device: &str, number: u64) -> Event {
    let mut headers = Headers::default();
    headers.push("Content-Type", "application/json");
    Event {
        event_id: derived_id(
            1_700_000_000_000,
            &[device.as_bytes(), &number.to_be_bytes()],
        ),
        event_type: "gps.report.created".into(),
        event_version: "1.0".into(),
        aggregate_type: "device".into(),
        aggregate_id: format!("p/{device}").into(),
        subject: format!("gps.report.created.p.{device}").into(),
        payload: Bytes::from(format!("{{\"device\":\"{device}\",\"number\":{number}}}")),
        headers,
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
    }
}

pub(crate) fn events(device: &str, numbers: std::ops::Range<u64>) -> Vec<Event> {
    numbers.map(|number| event(device, number)).collect()
}
