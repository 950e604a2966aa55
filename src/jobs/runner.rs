//! Runs jobs: takes the lock, does the work under its limit, keeps the lock meanwhile, writes what became of it.
//!
//! Invariants: no work is done without the lock; when the lock is lost, or may be, the work is dropped; whatever ends a run,
//! what became of it is written, by this node or by one that finds its lease run out.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, interval, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::job::{Context, Fence, Job, Log, Registry};
use super::metrics::Metrics;
use super::run::{Ended, Outcome, Request};
use super::store::{Begun, Store};
use crate::tasks::{OnExit, Tasks};

/// How often what a run said is written, for those who watch it.
const SAY: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(200);
/// How often runs that are too old are looked for.
const PURGE: Duration = Duration::from_secs(3_600);

/// All that runs jobs on a node; cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    /// The jobs that there are.
    pub registry: Arc<Registry>,
    /// Locks and runs.
    pub store: Store,
    /// This process, another one after each start.
    pub node: Arc<str>,
    /// Its figures.
    pub metrics: Metrics,
    /// Where runs that nobody waits for are tasks.
    pub tasks: Tasks,
    /// Cancelled when the node stops: what runs is ended.
    pub stop: CancellationToken,
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    /// Rung when a run has ended.
    pub(super) ended: Arc<Notify>,
}

/// What came of asking for a run.
#[derive(Debug)]
pub enum Start {
    /// It has the lock; [`Started::finish`] does the work.
    Started(Box<Started>),
    /// Another run has the lock.
    Busy {
        /// That run.
        run: String,
    },
    /// The scheduler has run it lately, here or on another node.
    NotDue {
        /// So much later it is due.
        after: Duration,
    },
}

/// A run that has the lock.
pub struct Started {
    jobs: Jobs,
    job: Job,
    request: Request,
    killed: CancellationToken,
    begun: Instant,
}

impl Jobs {
    /// Runs the jobs of `registry` under the name `node` until `stop`.
    #[must_use]
    pub fn new(
        registry: Registry,
        store: Store,
        node: &str,
        tasks: Tasks,
        stop: CancellationToken,
    ) -> Self {
        Self {
            registry: registry.into(),
            store,
            node: node.into(),
            metrics: Metrics::default(),
            tasks,
            stop,
            running: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Takes the lock for a run, or says who has it.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a name that no job has; the database's.
    pub async fn start(&self, request: Request) -> Result<Start, Error> {
        let job = self.registry.get(&request.name)?.clone();
        let begun = Instant::now();
        match self.store.begin(&request, &self.node).await? {
            Begun::Busy { owner } => return Ok(Start::Busy { run: owner }),
            Begun::NotDue { after } => return Ok(Start::NotDue { after }),
            Begun::Ours => {}
        }
        let killed = self.stop.child_token();
        self.running().insert(request.id.clone(), killed.clone());
        self.metrics.begun(job.name);
        Ok(Start::Started(Box::new(Started {
            jobs: self.clone(),
            job,
            request,
            killed,
            begun,
        })))
    }

    /// Does the work of a run as a task of the node.
    pub fn spawn(&self, started: Box<Started>) {
        let finish = async move { drop(started.finish().await) };
        self.tasks.spawn("job", OnExit::Log, finish);
    }

    /// Ends a run of this node: whether there is one.
    pub fn kill(&self, run: &str) -> bool {
        let killed = self.running().get(run).cloned();
        killed.inspect(CancellationToken::cancel).is_some()
    }

    /// Ends runs of nodes that are gone, and forgets those older than `retention`, until the node stops.
    pub async fn keep(self, retention: Duration) {
        let mut ticks = interval(self.store.lease() / 3);
        let mut purge_at = Instant::now();
        let work = async {
            loop {
                ticks.tick().await;
                if let Err(error) = self.look_after(retention, &mut purge_at).await {
                    tracing::debug!(error = error.in_words(), "runs not looked after");
                }
            }
        };
        self.stop.run_until_cancelled(work).await;
    }

    async fn look_after(&self, retention: Duration, purge_at: &mut Instant) -> Result<(), Error> {
        let lost = self.store.sweep().await?;
        if lost > 0 {
            tracing::warn!(lost, "runs of nodes that are gone");
            self.ended.notify_one();
        }
        if Instant::now() >= *purge_at {
            let purged = self.store.purge(retention).await?;
            let untold = self.store.forget_callbacks(retention).await?;
            *purge_at = Instant::now() + PURGE;
            tracing::debug!(purged, "old runs forgotten");
            if untold > 0 {
                tracing::warn!(untold, "results that XXL-JOB never took are forgotten");
            }
        }
        Ok(())
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.request).finish()
    }
}

impl Started {
    /// The run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.request.id
    }

    /// Does the work and writes what became of it.
    pub async fn finish(self) -> Ended {
        let log = Log::default();
        let context = Context {
            params: self.request.params.clone(),
            fence: Fence {
                name: self.job.name,
                run: self.request.id.clone(),
                lease: self.jobs.store.lease(),
            },
            log: log.clone(),
        };
        let limit = self
            .request
            .limit
            .map_or(self.job.limit, |limit| limit.min(self.job.limit));
        let ended = {
            let work = AssertUnwindSafe((self.job.work)(context)).catch_unwind();
            tokio::select! {
                ended = work => judge(ended),
                () = self.keep(&log) => lost(),
                () = sleep(limit) => Ended {
                    outcome: Outcome::Timeout,
                    message: format!("not done within {limit:?}"),
                },
                () = self.killed.cancelled() => Ended {
                    outcome: Outcome::Killed,
                    message: match self.jobs.stop.is_cancelled() {
                        true => "its node stops".to_owned(),
                        false => "killed".to_owned(),
                    },
                },
            }
        };
        self.write(&ended, &log).await;
        self.jobs.running().remove(&self.request.id);
        self.tell(&ended);
        ended
    }

    fn tell(&self, ended: &Ended) {
        let (job, run, took) = (self.job.name, &*self.request.id, self.begun.elapsed());
        self.jobs.metrics.ended(job, ended.outcome, took);
        self.jobs.ended.notify_one();
        let message = &*ended.message;
        match ended.outcome {
            Outcome::Done => tracing::info!(job, run, ?took, message, "job done"),
            // Somebody wanted it so: a kill, or the end of a node that comes in the middle of a run.
            Outcome::Killed => tracing::info!(job, run, ?took, message, "job killed"),
            outcome => tracing::warn!(job, run, ?took, message, ?outcome, "job not done"),
        }
    }

    /// Renews the lock and writes what was said; returns when the lock is lost, or has not been renewed for as long as it lasts.
    async fn keep(&self, log: &Log) {
        let lease = self.jobs.store.lease();
        let (mut ticks, mut renewed) = (interval(SAY.min(lease / 3)), self.begun);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sleep_until(renewed + lease) => return,
            }
            let lines = log.unsaved();
            if !lines.is_empty() && self.jobs.store.say(self.id(), &lines).await.is_ok() {
                log.saved(&lines);
            }
            let asked = Instant::now();
            if asked.duration_since(renewed) < lease / 3 {
                continue;
            }
            match self.jobs.store.renew(&self.request).await {
                Ok(true) => renewed = asked,
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(error = error.in_words(), "lock of a job not renewed");
                }
            }
        }
    }

    /// Tries for as long as the lock lasts; then whoever sweeps writes that the run is lost.
    async fn write(&self, ended: &Ended, log: &Log) {
        let lines = log.unsaved();
        let until = Instant::now() + self.jobs.store.lease();
        loop {
            match self.jobs.store.end(self.id(), ended, &lines).await {
                Ok(()) => return,
                Err(error) if error.is_passing() && Instant::now() < until => sleep(RETRY).await,
                Err(error) => {
                    let error = error.in_words();
                    tracing::error!(run = self.id(), error, "the end of a run is not written");
                    return;
                }
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that is never finished is swept.
        self.jobs.running().remove(&self.request.id);
    }
}

fn judge(ended: Result<Result<String, Error>, Box<dyn std::any::Any + Send>>) -> Ended {
    match ended {
        Ok(Ok(message)) => Ended {
            outcome: Outcome::Done,
            message,
        },
        Ok(Err(Error::LockLost)) => lost(),
        Ok(Err(error)) => Ended {
            outcome: Outcome::Failed,
            message: error.in_words(),
        },
        Err(_panic) => Ended {
            outcome: Outcome::Failed,
            message: "the job panicked".to_owned(),
        },
    }
}

fn lost() -> Ended {
    Ended {
        outcome: Outcome::Lost,
        message: Error::LockLost.to_string(),
    }
}
