//! What the XXL-JOB admin is told: that this executor is there, what became of its runs, and that it goes.
//!
//! Of several addresses of one admin the first one that takes it is told. A result is told again until it is taken; it is in
//! the database, so that another node, or this one after a restart, goes on with it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::executor::Executor;
use super::protocol::{Answer, OK, Registration, TOKEN, Told};
use crate::jobs::Error;
use crate::jobs::config::Config;
use crate::jobs::store::Callback;
use crate::net::post;

/// An executor that has not registered for three of these is gone to the admin.
const REGISTER: Duration = Duration::from_secs(30);
/// How often results are looked for that nobody rang for: of nodes that are gone, or not taken before.
const LOOK: Duration = Duration::from_secs(5);
/// How long one who tells a result has it for itself.
const CLAIM: Duration = Duration::from_secs(10);
/// How long the admin may take; the same as it gives us.
const ANSWER: Duration = Duration::from_secs(3);
/// How long the stop waits for the results of what it ended: on a busy disk the end of a run and the look for it take seconds.
const LAST_RESULTS: Duration = Duration::from_secs(10);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// The one who tells.
pub struct Admin {
    admins: Vec<Uri>,
    app: String,
    address: String,
    token: String,
    executor: Executor,
}

impl Admin {
    /// For `executor`, which listens at `listening`; none if no admin is to be told.
    #[must_use]
    pub fn new(config: &Config, listening: SocketAddr, executor: Executor) -> Option<Self> {
        let admins = config.admins();
        let own = || format!("http://{listening}/");
        (!admins.is_empty()).then(|| Self {
            admins,
            app: config.xxl_app.clone(),
            address: config.xxl_address.clone().unwrap_or_else(own),
            token: config.xxl_token.clone(),
            executor,
        })
    }

    /// Tells until the node stops, and then that it does.
    pub async fn run(self) {
        let stop = self.executor.jobs.stop.clone();
        let work = async {
            let (mut register, mut look) = (interval(REGISTER), interval(LOOK));
            register.set_missed_tick_behavior(MissedTickBehavior::Delay);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = register.tick() => self.register("api/registry").await,
                    _ = look.tick() => drop(self.tell_results().await),
                    () = self.executor.jobs.ended.notified() => drop(self.tell_results().await),
                }
            }
        };
        stop.run_until_cancelled(work).await;
        self.register("api/registryRemove").await;
        // What the stop ended has results as well; what is not told in time is told by the next start.
        let last = async {
            // There is no later look for what the database does not give now.
            while !self.executor.is_idle() || self.tell_results().await.is_err() {
                sleep(LAST_LOOK).await;
            }
        };
        drop(timeout(LAST_RESULTS, last).await);
    }

    async fn register(&self, path: &str) {
        let registration = Registration {
            registry_group: "EXECUTOR",
            registry_key: &self.app,
            registry_value: &self.address,
        };
        if let Err(error) = self.tell(path, &registration).await {
            tracing::warn!(error, path, "XXL-JOB admin not told");
        }
    }

    /// Tells what waits, until an admin does not take it.
    ///
    /// # Errors
    /// The database, of which it is not known what waits.
    async fn tell_results(&self) -> Result<(), Error> {
        loop {
            let claimed = self.executor.jobs.store.claim_callbacks(CLAIM).await;
            let callbacks = claimed.inspect_err(|error| {
                tracing::debug!(error = error.in_words(), "results not read");
            })?;
            if callbacks.is_empty() {
                return Ok(());
            }
            let results: Vec<Told<'_>> = callbacks.iter().map(Told::from).collect();
            let waiting = i64::try_from(callbacks.len()).unwrap_or(i64::MAX);
            let told = self.tell("api/callback", &results).await;
            let told = match told {
                Ok(()) => {
                    let taken = self.executor.jobs.store.callbacks_taken(&callbacks).await;
                    taken.map_err(|error| error.in_words())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                self.executor.jobs.metrics.callbacks_waiting.set(waiting);
                tracing::warn!(error, waiting, "XXL-JOB admin has not taken results");
                return Ok(());
            }
            self.executor.jobs.metrics.callbacks_waiting.set(0);
        }
    }

    /// Tells the first admin that takes it, or says what the last one answered.
    async fn tell(&self, path: &str, body: &impl Serialize) -> Result<(), String> {
        let body: Bytes = serde_json::to_vec(body)
            .map_err(|error| error.to_string())?
            .into();
        let mut why = String::new();
        for admin in &self.admins {
            match Box::pin(self.post(admin, path, body.clone())).await {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    async fn post(&self, admin: &Uri, path: &str, body: Bytes) -> Result<(), String> {
        let url = format!("{}/{path}", admin.to_string().trim_end_matches('/'));
        let url = post::parse(&url)?;
        let token = [(TOKEN, &*self.token)];
        let headers = match self.token.is_empty() {
            true => &[][..],
            false => &token[..],
        };
        let answered = post::json(&url, headers, body, ANSWER).await;
        let (status, body) = answered.map_err(|error| error.to_string())?;
        match serde_json::from_slice::<Answer>(&body) {
            Ok(answer) if answer.code == OK => Ok(()),
            Ok(answer) => Err(answer
                .msg
                .unwrap_or_else(|| format!("code {}", answer.code))),
            Err(_other) => Err(format!("status {status} without an answer")),
        }
    }
}

impl<'a> From<&'a Callback> for Told<'a> {
    fn from(callback: &'a Callback) -> Self {
        Self {
            log_id: callback.log_id,
            log_date_tim: callback.log_ms,
            handle_code: callback.code,
            handle_msg: &callback.message,
        }
    }
}
