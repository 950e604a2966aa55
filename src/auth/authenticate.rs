//! CONNECT → [`Decision`]: the steps of the chain are asked in their order, until one accepts or denies.
//!
//! It does not write to the database, and it does not limit how often somebody may try. In the open profile nobody proves
//! anything: the client identifier is who a client is, user name and password are not looked at.
//!
//! Invariants: whom no step accepts is denied; every answer comes within the time limits of the steps, and a step without an answer
//! is [`Error::Unavailable`], never [`Error::Denied`]: the steps behind it are not asked, because it might have denied.

use std::sync::Arc;
use std::time::Instant;

use async_nats::Client;

use crate::auth::activation::{Activation, Activations};
use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::credentials::Identity;
use crate::auth::denied::{Denied, Error, Refusal};
use crate::auth::exchange::Scram;
use crate::auth::metrics::Metrics;
use crate::auth::records::Records;
use crate::auth::registrar::{self, Registrar};
use crate::auth::replay;
use crate::auth::scram;
use crate::auth::step::certificate::{self, Holders};
use crate::auth::step::http::{self, Http};
use crate::auth::step::jwt::{self, Jwt};
use crate::auth::step::nats::{self, Nats};
use crate::auth::step::password::{self, Password};
use crate::auth::step::{self, Kind, Reading, Step, strict};
use crate::catalogue::Catalogue;
use crate::device::{DeviceId, Scope};
use crate::telemetry;

/// How logins are answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The steps, in the order in which they are asked.
    pub chain: Vec<Kind>,
    /// Whether a device must be in the database whatever it proves itself with. Who is disabled there never comes in.
    pub registered_only: bool,
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
    /// Step `device`.
    pub device: strict::Config,
    /// Step `certificate`.
    pub certificate: certificate::Config,
    /// Step `jwt`.
    pub jwt: jwt::Config,
    /// Step `password`.
    pub password: password::Config,
    /// Step `http`.
    pub http: http::Config,
    /// Step `nats`.
    pub nats: nats::Config,
    /// Registration of devices that have no secret yet.
    pub registration: registrar::Config,
    /// Signatures of sub-devices.
    pub binding: replay::Binding,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            chain: vec![Kind::Device],
            registered_only: false,
            lookup_timeout_ms: 2_000,
            cache_entries_max: 100_000,
            cache_ttl_ms: 60_000,
            cache_unknown_ttl_ms: 5_000,
            breaker_failures: 20,
            breaker_wait_ms: 1_000,
            scram_iterations: *scram::ITERATIONS.start(),
            device: strict::Config::default(),
            certificate: certificate::Config::default(),
            jwt: jwt::Config::default(),
            password: password::Config::default(),
            http: http::Config::default(),
            nats: nats::Config::default(),
            registration: registrar::Config::default(),
            binding: replay::Binding::default(),
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
        faults.extend(self.registration.validate());
        for kind in &self.chain {
            let found = match kind {
                Kind::Certificate => self.certificate.validate(),
                Kind::Device => self.device.validate(),
                Kind::Jwt => self.jwt.validate(),
                Kind::Password => self.password.validate(),
                Kind::Http => self.http.validate(),
                Kind::Nats => self.nats.validate(),
            };
            let name = kind.name();
            faults.extend(found.into_iter().map(|fault| format!("{name}.{fault}")));
        }
        faults
    }
}

/// Tells which device a login is: by the chain, or from the client identifier alone.
pub struct Authenticator {
    /// None: everybody may come in.
    pub(super) chain: Option<Chain>,
    /// Reads the keys of tokens, once somebody [takes](Self::take_reading) it and lets it run.
    reading: Option<Reading>,
    /// Writes down who logged in for the first time, likewise.
    activation: Option<Activation>,
    /// Answers devices that have no secret yet, if they may register.
    pub registrar: Option<Registrar>,
    /// What it counts.
    pub metrics: Metrics,
}

/// What logins are proved with.
pub(super) struct Chain {
    steps: Box<[Step]>,
    registered_only: bool,
    pub(super) activations: Activations,
    pub(super) records: Arc<Records>,
    /// Where devices have secrets.
    pub(super) scram: Option<Scram>,
}

impl Authenticator {
    /// An authenticator with empty caches; `nats` is for the step of that name.
    ///
    /// # Errors
    /// Every fault of the configuration, or the steps that cannot be made of it: a chain is never shorter than it was meant to be.
    pub fn new(
        config: &Config,
        devices: Catalogue,
        nats: Option<&Client>,
    ) -> Result<Self, Vec<String>> {
        let faults = config.validate();
        if !faults.is_empty() {
            return Err(faults);
        }
        let metrics = Metrics::default();
        let (activations, activation) = Activations::new(devices.clone());
        let registrar = config.registration.enabled.then(|| {
            let answers = metrics.registrations.clone();
            Registrar::new(&config.registration, devices.clone(), nats, answers)
        });
        let catalogue = devices.clone();
        let records = Arc::new(Records::new(config, devices, metrics.clone()));
        let mut reading = None;
        let mut step = |kind: Kind| match kind {
            Kind::Certificate => {
                let holders = Holders::new(&config.certificate, catalogue.clone());
                Some(Step::Certificate(Box::new(holders)))
            }
            Kind::Device => {
                let device = step::device::Device::new(&config.device, Arc::clone(&records));
                Some(Step::Device(Box::new(device)))
            }
            Kind::Jwt => {
                let (jwt, keys) = Jwt::new(&config.jwt)?;
                reading = Some(keys);
                Some(Step::Jwt(Box::new(jwt)))
            }
            Kind::Password => Some(Step::Password(Box::new(Password::new(&config.password)?))),
            Kind::Http => Some(Step::Http(Box::new(Http::new(&config.http)?))),
            Kind::Nats => Some(Step::Nats(Box::new(Nats::new(&config.nats, nats?.clone())))),
        };
        let made = config.chain.iter().map(|kind| {
            step(*kind).ok_or_else(|| vec![format!("chain: no step {:?} can be made", kind.name())])
        });
        let steps = made.collect::<Result<_, _>>()?;
        let chain = Chain {
            steps,
            registered_only: config.registered_only,
            activations,
            scram: (config.chain.contains(&Kind::Device)).then(|| Scram::new(config)),
            records,
        };
        Ok(Self {
            chain: Some(chain),
            reading,
            activation: Some(activation),
            registrar,
            metrics,
        })
    }

    /// What must run for as long as there are logins, if there is such a thing.
    pub fn take_reading(&mut self) -> Option<Reading> {
        self.reading.take()
    }

    /// The same for who logs in for the first time.
    pub fn take_activation(&mut self) -> Option<Activation> {
        self.activation.take()
    }

    /// An authenticator of the open profile, which lets everybody in.
    #[must_use]
    pub fn open() -> Self {
        Self {
            chain: None,
            reading: None,
            activation: None,
            registrar: None,
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

    /// Whether nobody comes in whom the catalogue does not have.
    #[must_use]
    pub fn lets_in_only_known(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| {
            let mut steps = chain.steps.iter();
            chain.registered_only || steps.all(|step| matches!(step, Step::Device(_)))
        })
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
            Some(chain) => match self.to_register(attempt.client_id) {
                Some(device) => Ok(Decision::to_register(device)),
                None => chain.authenticate(now, attempt).await,
            },
            None => open(attempt.client_id),
        };
        self.metrics.count(outcome.as_ref().map(|_| ()));
        outcome
    }

    /// The device that says it has no secret yet, where that is answered.
    fn to_register(&self, client_id: &str) -> Option<DeviceId> {
        self.registrar.as_ref()?;
        let identity = Identity::parse("client id", client_id).ok()?;
        (identity.scope == Scope::Register).then_some(identity.device)
    }

    /// Forgets what is cached about a device; a look-up under way is not cached either.
    pub fn forget(&self, device: &DeviceId) {
        if let Some(chain) = &self.chain {
            chain.records.forget(device);
            chain.forget();
        }
    }

    /// Forgets what is cached about the devices of a product.
    pub fn forget_product(&self, product: &str) {
        if let Some(chain) = &self.chain {
            chain
                .records
                .cache
                .retain(|device, _| device.product() != product);
            chain.forget();
        }
    }

    /// Forgets everything that is cached about devices.
    pub fn forget_all(&self) {
        if let Some(chain) = &self.chain {
            chain.records.cache.clear();
            chain.forget();
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
    let mut decision = Decision::of(id.map_err(Denied::ClientId)?);
    decision.device.scope = Scope::Open;
    Ok(decision)
}

impl Chain {
    async fn authenticate(&self, now: Instant, attempt: &Attempt<'_>) -> Result<Decision, Error> {
        let mut passed = None;
        for step in &self.steps {
            match step.ask(now, attempt).await? {
                Verdict::Accept(decision) => {
                    let decision = match step {
                        // It asked the catalogue itself.
                        Step::Device(_) => decision,
                        _ => self.admit(now, decision).await?,
                    };
                    if decision.is_first {
                        self.activations.note(&decision.device.id);
                    }
                    return Ok(decision);
                }
                Verdict::Deny(denied) => return Err(denied.into()),
                Verdict::Pass(denied) => passed = passed.or(denied),
            }
        }
        Err(passed.unwrap_or(Denied::Refused(Refusal::Nothing)).into())
    }

    /// What steps remember of the catalogue besides.
    fn forget(&self) {
        self.steps.iter().for_each(Step::forget);
    }

    /// What the catalogue has to say about a device that proved itself without it.
    async fn admit(&self, now: Instant, decision: Decision) -> Result<Decision, Error> {
        match self.records.find(now, &decision.device.id).await? {
            Some(record) => Ok(decision.with(&record)?),
            None if self.registered_only => Err(Denied::UnknownDevice.into()),
            None => Ok(decision),
        }
    }
}

#[cfg(test)]
#[path = "authenticate_tests.rs"]
mod tests;
