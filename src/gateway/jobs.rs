//! The jobs of a node: the role `jobs`, and what the command line runs without a gateway.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::lifecycle::mapping;
use super::parts::Parts;
use crate::config::Config;
use crate::database::{self, Pool};
use crate::gps::store::Tables;
use crate::jetstream::Link;
use crate::jobs::reports::{NOTIFICATION, PUBLISH, SCHEDULE, registry};
use crate::jobs::xxl::{self, Admin, Executor};
use crate::jobs::{self, Jobs, scheduler};
use crate::outbox::publisher::Any;
use crate::outbox::store::{self, Wake};
use crate::outbox::{Metrics, Relay};
use crate::tasks::{OnExit, Tasks};

/// How long a database that is away is left alone.
const AWAY: Duration = Duration::from_secs(2);

/// What jobs need of their database.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
}

impl Database {
    /// The database of a configuration; a pool of the jobs' own, so that they are in nobody's way.
    ///
    /// # Errors
    /// It cannot be used; a server that is away is none.
    pub async fn open(config: &Config) -> Result<Self, database::Error> {
        let pool = Pool::open(&config.database).await?;
        Ok(Self { pool })
    }

    /// Locks and runs.
    #[must_use]
    pub fn store(&self, config: &Config) -> jobs::Store {
        jobs::Store::new(self.pool.clone(), config.jobs.lease())
    }

    /// Brings the tables that jobs read and write up to date.
    ///
    /// # Errors
    /// They cannot be used, or the database does not answer.
    pub async fn migrate(&self, store: &jobs::Store) -> Result<()> {
        Tables::new(self.pool.clone()).migrate().await?;
        store::Store::new(self.pool.clone()).migrate().await?;
        Ok(store.migrate().await?)
    }

    /// A relay of its own.
    ///
    /// # Errors
    /// The broker of the configuration cannot be used.
    pub async fn relay(&self, config: &Config, link: &Link, wake: Wake) -> Result<Relay<Any>> {
        let publisher = Any::open(&config.outbox, link, &mapping(config)?).await?;
        Ok(Relay {
            store: store::Store::new(self.pool.clone()),
            publisher: Arc::new(publisher),
            config: config.outbox.clone(),
            metrics: Metrics::default(),
            wake,
        })
    }
}

impl Parts<'_> {
    /// Runs what is due, and what XXL-JOB wants, as far as this node has that role; `node` names it.
    pub(super) async fn start_jobs(&mut self, node: &str) -> Result<()> {
        if !self.config.runs_jobs() {
            return Ok(());
        }
        let config = self.config;
        let database = Database::open(config).await.context("database of jobs")?;
        let store = database.store(config);
        let relay = match &self.outbox {
            Some(relay) => relay.clone(),
            None => {
                let wake = self.wake.clone();
                database.relay(config, &self.link, wake).await?
            }
        };
        let (tasks, stop) = (self.services.clone(), self.services_stop.clone());
        let jobs = registry(&config.jobs, &store, relay);
        let jobs = Jobs::new(jobs, store, node, tasks, stop);
        jobs.metrics.register(&mut self.metrics);
        let run = schedule(jobs.clone(), config.jobs.clone(), database);
        self.services.spawn("jobs", OnExit::Shutdown, run);
        if let Some(listen) = config.jobs.xxl_listen {
            let listener = TcpListener::bind(listen)
                .await
                .with_context(|| format!("cannot listen for XXL-JOB on {listen}"))?;
            start_executor(&self.services, &jobs, &config.jobs, listener)?;
        }
        self.jobs = Some(jobs);
        Ok(())
    }
}

/// Waits for the database, and then runs each job when it is due, until the node stops.
async fn schedule(jobs: Jobs, config: jobs::Config, database: Database) {
    let stop = jobs.stop.clone();
    let prepare = Box::pin(prepare(&jobs, &database));
    let ready = stop.run_until_cancelled(prepare).await;
    if ready.is_none() {
        return;
    }
    let intervals = [
        (SCHEDULE, config.schedule_interval_s),
        (PUBLISH, config.publish_interval_s),
        (NOTIFICATION, config.notification_interval_s),
    ];
    let due = intervals.into_iter().filter(|(_, seconds)| *seconds > 0);
    let due =
        due.map(|(name, seconds)| scheduler::run(jobs.clone(), name, Duration::from_secs(seconds)));
    let keep = jobs.clone().keep(config.retention());
    tokio::join!(join_all(due), keep);
}

/// Returns when the tables are there.
async fn prepare(jobs: &Jobs, database: &Database) {
    while let Err(error) = database.migrate(&jobs.store).await {
        tracing::warn!(error = format!("{error:#}"), "jobs wait for their database");
        sleep(AWAY).await;
    }
}

fn start_executor(
    tasks: &Tasks,
    jobs: &Jobs,
    config: &jobs::Config,
    listener: TcpListener,
) -> Result<()> {
    let address = listener.local_addr()?;
    let executor = Executor::new(jobs.clone());
    if let Some(admin) = Admin::new(config, address, executor.clone()) {
        tasks.spawn("XXL-JOB admin", OnExit::Shutdown, admin.run());
    }
    let keep = executor.clone().keep();
    tasks.spawn("XXL-JOB runs", OnExit::Shutdown, keep);
    let (token, stop): (_, CancellationToken) = (config.xxl_token.clone(), jobs.stop.clone());
    let serve = xxl::serve(executor, token, listener, stop);
    tasks.spawn("XXL-JOB executor", OnExit::Shutdown, serve);
    tracing::info!(%address, "XXL-JOB executor");
    Ok(())
}
