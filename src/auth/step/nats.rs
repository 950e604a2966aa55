//! Step `nats`: a service is asked by a request on a subject.
//!
//! Any number of services may listen in one queue group; `hook` says what they are asked and answer. When nobody listens, NATS says so
//! at once.

use std::time::{Duration, Instant};

use async_nats::{Client, Request};
use serde::Deserialize;

use crate::auth::attempt::{Attempt, Verdict};
use crate::auth::denied::Unavailable;
use crate::auth::gate::{Gate, Limits};
use crate::auth::step::hook;

/// Who is asked (`[auth.nats]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The subject of the request.
    pub subject: String,
    /// Time, cache and breaker.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            subject: "jetway.auth.connect".to_owned(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = self.limits.validate();
        let is_token = |token: &str| {
            !token.is_empty()
                && !token
                    .contains(|c: char| c.is_whitespace() || c.is_control() || "*>".contains(c))
        };
        if !self.subject.split('.').all(is_token) {
            faults.push("subject: expected a subject without wildcards".to_owned());
        }
        faults
    }
}

/// The step.
pub(in crate::auth) struct Nats {
    client: Client,
    config: Config,
    gate: Gate,
}

impl Nats {
    pub(in crate::auth) fn new(config: &Config, client: Client) -> Self {
        Self {
            client,
            config: config.clone(),
            gate: Gate::new(&config.limits),
        }
    }

    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        let source = |room| async {
            let _room = room;
            self.request(attempt).await
        };
        self.gate.ask(now, attempt, source).await
    }

    async fn request(&self, attempt: &Attempt<'_>) -> Result<Verdict, Unavailable> {
        let limit = Duration::from_millis(self.config.limits.timeout_ms);
        let request = Request::new()
            .payload(hook::question(attempt)?)
            .timeout(Some(limit));
        let answer = self
            .client
            .send_request(self.config.subject.clone(), request)
            .await
            .map_err(|error| Unavailable::Source(error.to_string()))?;
        hook::verdict(&answer.payload, attempt.client_id)
    }
}
