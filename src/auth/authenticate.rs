//! CONNECT → [`Decision`]: the steps of the chain are asked in their order, until one accepts or denies.
//!
//! It does not write to the database, and it does not limit how often somebody may try. In the open profile nobody proves
//! anything: the client identifier is who a client is, user name and password are not looked at.
//!
//! Invariants: whom no step accepts is denied; every answer comes within the time limits of the steps, and a step without an answer
//! is [`Error::Unavailable`], never [`Error::Denied`]: the steps behind it are not asked, because it might have denied.

use std::sync::Arc;
use std::time::Instant;

use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::denied::{Denied, Error};
use crate::auth::exchange::Scram;
use crate::auth::metrics::Metrics;
use crate::auth::records::Records;
use crate::auth::scram;
use crate::auth::step::{Kind, Step};
use crate::catalogue::Catalogue;
use crate::device::{Device, DeviceId, Scope};
use crate::telemetry;

/// How logins are answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The steps, in the order in which they are asked.
    pub chain: Vec<Kind>,
    /// How long a login may wait for the database.
    pub lookup_timeout_ms: u64,
    /// How many devices are remembered, unknown ones included. One takes about 300 bytes, and 200 more once it has used
    /// SCRAM.
    pub cache_entries_max: usize,
    /// How long a device is remembered: a changed secret or a disabled device counts after this time.
    pub cache_ttl_ms: u64,
    /// How long an unknown device is remembered: a new device that tried too early can log in after this time.
    pub cache_unknown_ttl_ms: u64,
    /// After so many look-ups in a row without an answer, logins no longer wait for the database ...
    pub breaker_failures: u32,
    /// ... except for one in this time, whose answer ends it.
    pub breaker_wait_ms: u64,
    /// How often SCRAM-SHA-256 hashes a secret (RFC 7677 §4), here and in the device. More of it slows down guessing,
    /// which secrets of random bytes do not need.
    pub scram_iterations: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chain: vec![Kind::Device],
            lookup_timeout_ms: 2_000,
            cache_entries_max: 100_000,
            cache_ttl_ms: 60_000,
            cache_unknown_ttl_ms: 5_000,
            breaker_failures: 20,
            breaker_wait_ms: 1_000,
            scram_iterations: *scram::ITERATIONS.start(),
        }
    }
}

impl Config {
    /// All faults, each naming its key and what was expected; none when it can be used.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.chain.is_empty() {
            faults.push("chain is empty, expected at least \"device\"".to_owned());
        }
        for (at, kind) in self.chain.iter().enumerate() {
            if self.chain.iter().take(at).any(|before| before == kind) {
                let name = kind.name();
                faults.push(format!(
                    "chain has \"{name}\" twice, expected each step once"
                ));
            }
        }
        for (key, value) in [
            ("lookup_timeout_ms", self.lookup_timeout_ms),
            ("cache_entries_max", self.cache_entries_max as u64),
            ("breaker_failures", self.breaker_failures.into()),
            ("breaker_wait_ms", self.breaker_wait_ms),
        ] {
            if value == 0 {
                faults.push(format!("{key} is 0, expected at least 1"));
            }
        }
        if self.cache_unknown_ttl_ms > self.cache_ttl_ms {
            faults.push(format!(
                "cache_unknown_ttl_ms is {}, expected at most cache_ttl_ms ({})",
                self.cache_unknown_ttl_ms, self.cache_ttl_ms
            ));
        }
        if !scram::ITERATIONS.contains(&self.scram_iterations) {
            faults.push(format!(
                "scram_iterations is {}, expected {} to {}",
                self.scram_iterations,
                scram::ITERATIONS.start(),
                scram::ITERATIONS.end()
            ));
        }
        faults
    }
}

/// Tells which device a login is: by the chain, or from the client identifier alone.
pub struct Authenticator {
    /// None: everybody may come in.
    pub(super) chain: Option<Chain>,
    /// What it counts.
    pub metrics: Metrics,
}

/// What logins are proved with.
pub(super) struct Chain {
    steps: Box<[Step]>,
    pub(super) records: Arc<Records>,
    /// Where devices have secrets.
    pub(super) scram: Option<Scram>,
}

impl Authenticator {
    /// An authenticator with empty caches.
    #[must_use]
    pub fn new(config: &Config, devices: Catalogue) -> Self {
        let metrics = Metrics::default();
        let records = Arc::new(Records::new(config, devices, metrics.clone()));
        let step = |kind: &Kind| match kind {
            Kind::Device => Step::Device(Arc::clone(&records)),
        };
        let chain = Chain {
            steps: config.chain.iter().map(step).collect(),
            scram: (config.chain.contains(&Kind::Device)).then(|| Scram::new(config)),
            records,
        };
        Self {
            chain: Some(chain),
            metrics,
        }
    }

    /// An authenticator of the open profile, which lets everybody in.
    #[must_use]
    pub fn open() -> Self {
        Self {
            chain: None,
            metrics: Metrics::default(),
        }
    }

    /// What a device may that has proved itself.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self.chain {
            Some(_) => Scope::Full,
            None => Scope::Open,
        }
    }

    /// What this CONNECT proves.
    ///
    /// In the open profile an empty client identifier gets a new one, which [`DeviceId::client_id`] tells.
    ///
    /// # Errors
    /// [`Error::Denied`] when it proves nothing, [`Error::Unavailable`] when a step could not tell in time.
    pub async fn authenticate(&self, attempt: &Attempt<'_>) -> Result<Decision, Error> {
        self.authenticate_at(Instant::now(), attempt).await
    }

    pub(super) async fn authenticate_at(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Decision, Error> {
        let outcome = match &self.chain {
            Some(chain) => chain.authenticate(now, attempt).await,
            None => open(attempt.client_id),
        };
        self.metrics.count(outcome.as_ref().map(|_| ()));
        outcome
    }

    /// Forgets what is cached about a device; a look-up under way is not cached either.
    pub fn forget(&self, device: &DeviceId) {
        if let Some(chain) = &self.chain {
            chain.records.forget(device);
        }
    }
}

/// A client of the open profile; one without an identifier gets one that nobody has or guesses [MQTT-3.1.3-6].
fn open(client_id: &str) -> Result<Decision, Error> {
    let id = match client_id {
        "" => DeviceId::open(&format!(
            "auto-{:016x}{:016x}",
            telemetry::random_u64(),
            telemetry::random_u64()
        )),
        client_id => DeviceId::open(client_id),
    };
    Ok(Decision {
        device: Device {
            id: id.map_err(Denied::ClientId)?,
            scope: Scope::Open,
            sub_devices: [].into(),
        },
    })
}

impl Chain {
    async fn authenticate(&self, now: Instant, attempt: &Attempt<'_>) -> Result<Decision, Error> {
        let mut passed = None;
        for step in &self.steps {
            match step.ask(now, attempt).await? {
                Verdict::Accept(decision) => return Ok(decision),
                Verdict::Deny(denied) => return Err(denied.into()),
                Verdict::Pass(denied) => passed = passed.or(denied),
            }
        }
        // Only `device` can be asked so far, and it tells what it passes on.
        Err(passed.unwrap_or(Denied::UnknownDevice).into())
    }
}

#[cfg(test)]
#[path = "authenticate_tests.rs"]
mod tests;
