//! Step `http`: a service is asked by a POST of JSON.
//!
//! It answers with status 200 and JSON; `hook` says what. Any other status is a service that does not work.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use crate::auth::attempt::{Attempt, Verdict};
use crate::auth::denied::Unavailable;
use crate::auth::gate::{Gate, Limits};
use crate::auth::step::hook;
use crate::net::post;

/// Who is asked (`[auth.http]`).
#[derive(Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it is, `http` or `https`.
    pub url: String,
    /// Headers of the request, such as `Authorization`.
    pub headers: BTreeMap<String, String>,
    /// Time, cache and breaker.
    pub limits: Limits,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("Config")
            .field("headers", &names)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = self.limits.validate();
        if let Err(fault) = post::parse(&self.url) {
            faults.push(format!("url: {fault}"));
        }
        for (name, value) in &self.headers {
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
                faults.push(format!("headers.{name:?}: expected a header of HTTP"));
            }
        }
        faults
    }
}

/// The step.
pub(in crate::auth) struct Http {
    uri: Uri,
    config: Config,
    gate: Gate,
}

impl Http {
    /// None for a configuration that is not valid.
    pub(in crate::auth) fn new(config: &Config) -> Option<Self> {
        Some(Self {
            uri: post::parse(&config.url).ok()?,
            config: config.clone(),
            gate: Gate::new(&config.limits),
        })
    }

    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        let source = |room| async {
            let _room = room;
            self.post(attempt).await
        };
        self.gate.ask(now, attempt, source).await
    }

    async fn post(&self, attempt: &Attempt<'_>) -> Result<Verdict, Unavailable> {
        let question = hook::question(attempt)?;
        let headers = self.config.headers.iter();
        let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (&**name, &**value)).collect();
        let limit = Duration::from_millis(self.config.limits.timeout_ms);
        match post::json(&self.uri, &headers, question, limit).await {
            Ok((200, body)) => hook::verdict(&body, attempt.client_id),
            Ok((status, _)) => Err(Unavailable::Source(format!(
                "expected status 200, found {status}"
            ))),
            Err(error) => Err(Unavailable::Source(error.to_string())),
        }
    }
}
