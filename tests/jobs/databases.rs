//! The three kinds of database, an empty one for each test, and jobs of the tests' own on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jetway::database::{Config, Pool};
use jetway::jobs::{self, Context, Error, Job, Jobs, Registry, Store, Work};
use jetway::tasks::Tasks;
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::support::{MariaDb, Postgres};

/// Of locks, in tests in which one runs out. In all others they last as in production: a slow database is not taken for one that is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// Runs a check on an empty database of each kind, at the same time.
pub(crate) async fn on_each(check: impl AsyncFn(Config)) {
    static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
    static MARIADB: OnceCell<MariaDb> = OnceCell::const_new();
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("jobs{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = TempDir::new().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let postgres = async {
        let server = POSTGRES.get_or_init(Postgres::start).await;
        server.database(&name).await
    };
    let mariadb = async {
        let server = MARIADB.get_or_init(MariaDb::start).await;
        server.database(&name).await
    };
    let (postgres, mariadb) = tokio::join!(postgres, mariadb);
    tokio::join!(
        check(config(&sqlite)),
        check(config(&postgres)),
        check(config(&mariadb)),
    );
}

pub(crate) fn config(url: &str) -> Config {
    Config {
        url: url.to_owned(),
        ..Config::default()
    }
}

pub(crate) async fn store(config: &Config) -> Store {
    store_of(config, jobs::Config::default().lease()).await
}

async fn store_of(config: &Config, lease: Duration) -> Store {
    let store = Store::new(Pool::open(config).await.unwrap(), lease);
    store.migrate().await.unwrap();
    store
}

/// A node that has these jobs.
pub(crate) async fn node(config: &Config, name: &str, jobs: &[Job]) -> Jobs {
    node_of(config, name, registry(jobs)).await
}

/// A node that has these jobs, for [`LEASE`].
pub(crate) async fn node_with_lease(config: &Config, name: &str, jobs: &[Job]) -> Jobs {
    started(store_of(config, LEASE).await, name, registry(jobs))
}

/// A node that has the jobs of this registry.
pub(crate) async fn node_of(config: &Config, name: &str, registry: Registry) -> Jobs {
    started(store(config).await, name, registry)
}

fn registry(jobs: &[Job]) -> Registry {
    let mut registry = Registry::default();
    for job in jobs {
        registry.add(job.clone());
    }
    registry
}

fn started(store: Store, name: &str, registry: Registry) -> Jobs {
    let tasks = Tasks::new(CancellationToken::new());
    let stop = CancellationToken::new();
    Jobs::new(registry, store, name, tasks, stop)
}

pub(crate) fn job(
    name: &'static str,
    work: impl Fn(Context) -> Work + Send + Sync + 'static,
) -> Job {
    Job {
        name,
        about: "of a test",
        limit: Duration::from_secs(20),
        work: Arc::new(work),
    }
}

/// One that says what it was given and is done.
pub(crate) fn echo() -> Job {
    job("echo", |context| {
        Box::pin(async move {
            context.say("first line");
            context.say(&format!("given {:?}", context.params));
            match &*context.params {
                "fail" => Err(Error::Failed("as it was asked to".to_owned())),
                "panic" => panic!("as it was asked to"),
                params => Ok(format!("did {params}")),
            }
        })
    })
}

/// One that never ends.
pub(crate) fn hang() -> Job {
    job("hang", |context| {
        Box::pin(async move {
            context.say("hanging");
            std::future::pending().await
        })
    })
}
