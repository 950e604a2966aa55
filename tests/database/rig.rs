//! A test on each kind of database: one server of a kind for the whole program, and in it a database of each test's own.

use jetway::database::{Config, Kind, Pool, Transaction};
use sqlx::{AssertSqlSafe, Executor as _};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::support::{MariaDb, Postgres, eventually};

static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
static MARIADB: OnceCell<MariaDb> = OnceCell::const_new();

/// An empty database.
pub(crate) struct Site {
    pub(crate) config: Config,
    _folder: Option<TempDir>,
}

impl Site {
    pub(crate) async fn new(kind: Kind, test: &str) -> Self {
        let mut folder = None;
        let url = match kind {
            Kind::Sqlite => {
                let folder = folder.insert(tempfile::tempdir().unwrap());
                format!("sqlite:{}", folder.path().join("test.db").display())
            }
            Kind::Postgres => {
                let server = POSTGRES.get_or_init(Postgres::start).await;
                server.database(test).await
            }
            Kind::MySql => {
                let server = MARIADB.get_or_init(MariaDb::start).await;
                server.database(test).await
            }
        };
        Self {
            config: config(url),
            _folder: folder,
        }
    }

    pub(crate) async fn pool(&self) -> Pool {
        Pool::open(&self.config).await.unwrap()
    }
}

/// Two connections, each with time to be made.
pub(crate) fn config(url: String) -> Config {
    Config {
        url,
        connections_max: 2,
        busy_timeout_ms: 10_000,
    }
}

/// A pool that soon gives up what does not come; so it may give up a server that is slow to connect to.
pub(crate) async fn impatient(config: &Config) -> Pool {
    let config = Config {
        busy_timeout_ms: 1_000,
        ..config.clone()
    };
    Pool::open(&config).await.unwrap()
}

/// A transaction, however long it takes to connect.
pub(crate) async fn begin(pool: &Pool) -> Transaction {
    eventually("a transaction begins", async || {
        pool.begin().await.map_err(|error| error.to_string())
    })
    .await
}

/// Runs a statement, or several on servers; gives how many rows the last one met.
pub(crate) async fn run(transaction: &mut Transaction, sql: &str) -> Result<u64, sqlx::Error> {
    let sql = AssertSqlSafe(sql.to_owned());
    Ok(match transaction {
        Transaction::Sqlite(on) => on.execute(sql).await?.rows_affected(),
        Transaction::Postgres(on) => on.execute(sql).await?.rows_affected(),
        Transaction::MySql(on) => on.execute(sql).await?.rows_affected(),
    })
}

/// Runs a statement in a transaction of its own.
pub(crate) async fn commit(pool: &Pool, sql: &str) -> Result<u64, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let rows = run(&mut transaction, sql).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// The one number that a statement gives.
pub(crate) async fn number(transaction: &mut Transaction, sql: &'static str) -> i64 {
    let number = match transaction {
        Transaction::Sqlite(on) => sqlx::query_scalar(sql).fetch_one(&mut **on).await,
        Transaction::Postgres(on) => sqlx::query_scalar(sql).fetch_one(&mut **on).await,
        Transaction::MySql(on) => sqlx::query_scalar(sql).fetch_one(&mut **on).await,
    };
    number.unwrap()
}

/// Connections that the pool has, in use or not.
pub(crate) fn connections(pool: &Pool) -> u32 {
    match pool {
        Pool::Sqlite(pool) => pool.size(),
        Pool::Postgres(pool) => pool.size(),
        Pool::MySql(pool) => pool.size(),
    }
}

/// Makes of each function a test for each kind of database.
macro_rules! on_each {
    ($($test:ident),* $(,)?) => {
        $crate::rig::on_each!(@ sqlite, Sqlite, $($test),*);
        $crate::rig::on_each!(@ postgres, Postgres, $($test),*);
        $crate::rig::on_each!(@ mariadb, MySql, $($test),*);
    };
    (@ $name:ident, $kind:ident, $($test:ident),*) => {
        mod $name {
            $(#[tokio::test]
            async fn $test() {
                let kind = jetway::database::Kind::$kind;
                let site = $crate::rig::Site::new(kind, stringify!($test)).await;
                super::$test(&site, kind).await;
            })*
        }
    };
}
pub(crate) use on_each;
