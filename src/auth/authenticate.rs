//! CONNECT with client id, user name and password -> [`Device`].
//!
//! Devices that logged in lately, and devices that were looked up lately and are unknown, are answered from a bounded
//! cache. All logins of one device that is not there share one look-up. It does not write to the database, and it
//! does not limit how often somebody may try. In the open profile nobody proves anything: the client identifier is who
//! a client is, user name and password are not looked at.
//!
//! Invariants: every answer comes within `lookup_timeout_ms`, however slow the database is; a database that does not
//! answer is [`Error::Unavailable`], never [`Error::Denied`], and is asked again at the next login.

use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quick_cache::sync::Cache;

use crate::auth::credentials::{self, Identity, Login};
use crate::auth::exchange::Scram;
use crate::auth::lookups::Lookups;
use crate::auth::scram;
use crate::catalogue::{self, Catalogue, Record, State};
use crate::device::{self, Device, DeviceId, Scope};
use crate::telemetry;

/// How logins are answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long a login may wait for the database.
    pub lookup_timeout_ms: u64,
    /// How many devices are remembered, unknown ones included. One takes about 300 bytes, and 200 more once it has used
    /// SCRAM.
    pub cache_entries_max: usize,
    /// How long a device is remembered: a changed secret or a disabled device counts after this time.
    pub cache_ttl_ms: u64,
    /// How long an unknown device is remembered: a new device that tried too early can log in after this time.
    pub cache_unknown_ttl_ms: u64,
    /// How often SCRAM-SHA-256 hashes a secret (RFC 7677 §4), here and in the device. More of it slows down guessing,
    /// which secrets of random bytes do not need.
    pub scram_iterations: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lookup_timeout_ms: 2_000,
            cache_entries_max: 100_000,
            cache_ttl_ms: 60_000,
            cache_unknown_ttl_ms: 5_000,
            scram_iterations: *scram::ITERATIONS.start(),
        }
    }
}

impl Config {
    /// All faults, each naming its key and what was expected; none when it can be used.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.lookup_timeout_ms == 0 {
            faults.push("lookup_timeout_ms is 0, expected at least 1".to_owned());
        }
        if self.cache_entries_max == 0 {
            faults.push("cache_entries_max is 0, expected at least 1".to_owned());
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

/// Tells which device a login is: from the database of devices, or from the client identifier alone.
pub struct Authenticator {
    /// None: everybody may come in.
    pub(super) proof: Option<Proof>,
    /// What it counts.
    pub metrics: Metrics,
}

/// What logins are proved with.
pub(super) struct Proof {
    lookups: Lookups,
    cache: Cache<DeviceId, Cached>,
    lookup_timeout: Duration,
    ttl: Duration,
    unknown_ttl: Duration,
    pub(super) scram: Scram,
    pub(super) metrics: Metrics,
}

#[derive(Clone)]
struct Cached {
    /// `None`: the database does not know the device.
    record: Option<Record>,
    expires: Instant,
}

impl Authenticator {
    /// An authenticator with an empty cache.
    #[must_use]
    pub fn new(config: &Config, devices: Catalogue) -> Self {
        let metrics = Metrics::default();
        let proof = Proof {
            lookups: Lookups::new(devices),
            cache: Cache::new(config.cache_entries_max),
            lookup_timeout: Duration::from_millis(config.lookup_timeout_ms),
            ttl: Duration::from_millis(config.cache_ttl_ms),
            unknown_ttl: Duration::from_millis(config.cache_unknown_ttl_ms),
            scram: Scram::new(config),
            metrics: metrics.clone(),
        };
        Self {
            proof: Some(proof),
            metrics,
        }
    }

    /// An authenticator of the open profile, which lets everybody in.
    #[must_use]
    pub fn open() -> Self {
        Self {
            proof: None,
            metrics: Metrics::default(),
        }
    }

    /// What a device may that has proved itself.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self.proof {
            Some(_) => Scope::Full,
            None => Scope::Open,
        }
    }

    /// The device that these fields of a CONNECT prove to be.
    ///
    /// In the open profile an empty client identifier gets a new one, which [`DeviceId::client_id`] tells.
    ///
    /// # Errors
    /// [`Error::Denied`] when they prove nothing, [`Error::Unavailable`] when the database could not be asked in time.
    pub async fn authenticate(
        &self,
        client_id: &str,
        username: Option<&str>,
        password: Option<&[u8]>,
    ) -> Result<Device, Error> {
        let outcome = match &self.proof {
            Some(proof) => {
                proof
                    .authenticate_at(Instant::now(), client_id, username, password)
                    .await
            }
            None => open(client_id),
        };
        self.metrics.count(outcome.as_ref().map(|_| ()));
        outcome
    }

    /// Forgets what is cached about a device; a look-up under way is not cached either.
    pub fn forget(&self, device: &DeviceId) {
        if let Some(proof) = &self.proof {
            proof.cache.remove(device);
        }
    }
}

/// A client of the open profile; one without an identifier gets one that nobody has or guesses [MQTT-3.1.3-6].
fn open(client_id: &str) -> Result<Device, Error> {
    let id = match client_id {
        "" => DeviceId::open(&format!(
            "auto-{:016x}{:016x}",
            telemetry::random_u64(),
            telemetry::random_u64()
        )),
        client_id => DeviceId::open(client_id),
    };
    Ok(Device {
        id: id.map_err(Denied::ClientId)?,
        scope: Scope::Open,
        sub_devices: [].into(),
    })
}

impl Proof {
    async fn authenticate_at(
        &self,
        now: Instant,
        client_id: &str,
        username: Option<&str>,
        password: Option<&[u8]>,
    ) -> Result<Device, Error> {
        let device = claimed(client_id)?;
        let login = Login::parse(&device, username, password).map_err(Denied::Credentials)?;
        let record = self
            .record_in_time(now, &device)
            .await?
            .ok_or(Denied::UnknownDevice)?;
        login.verify(&record.secret).map_err(Denied::Credentials)?;
        // Only behind the proof: a stranger does not learn which devices are disabled.
        match record.state {
            State::Enabled => {}
            State::Disabled => return Err(Denied::Disabled.into()),
            State::Blocked => return Err(Denied::Blocked.into()),
        }
        Ok(Device {
            id: device,
            scope: Scope::Full,
            sub_devices: [].into(),
        })
    }

    /// What the database holds about the device, within the time that a login may wait for it.
    pub(super) async fn record_in_time(
        &self,
        now: Instant,
        device: &DeviceId,
    ) -> Result<Option<Record>, Error> {
        tokio::time::timeout(self.lookup_timeout, self.record(now, device))
            .await
            .unwrap_or(Err(catalogue::Error::Timeout(self.lookup_timeout)))
            .map_err(Error::Unavailable)
    }

    /// What the database holds about the device, from the cache where it is fresh.
    ///
    /// The first login of a device that is not cached asks the database and the others wait for it; if it fails or is
    /// cancelled, one of the others asks.
    async fn record(
        &self,
        now: Instant,
        device: &DeviceId,
    ) -> Result<Option<Record>, catalogue::Error> {
        self.cache.remove_if(device, |cached| cached.expires <= now);
        let place = match self.cache.get_value_or_guard_async(device).await {
            Ok(cached) => {
                self.metrics.cache_hits.inc();
                return Ok(cached.record);
            }
            Err(place) => place,
        };
        self.metrics.cache_misses.inc();
        let record = self.lookups.find(device).await?;
        let ttl = if record.is_some() {
            self.ttl
        } else {
            self.unknown_ttl
        };
        let cached = Cached {
            record,
            expires: now + ttl,
        };
        // A device that was forgotten meanwhile has no place any more: what was read may be older than that.
        drop(place.insert(cached.clone()));
        Ok(cached.record)
    }
}

/// The device that a client id says it is, not yet proved.
pub(super) fn claimed(client_id: &str) -> Result<DeviceId, Denied> {
    match Identity::parse("client id", client_id).map_err(Denied::Credentials)? {
        Identity {
            scope: Scope::Register,
            ..
        } => Err(Denied::Registration),
        Identity { device, .. } => Ok(device),
    }
}

/// What the logins came to. Prefix `auth`.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Logins that were accepted.
    pub accepted: Counter,
    /// Logins that were denied, by reason.
    pub denied: Family<[(&'static str, &'static str); 1], Counter>,
    /// Logins without an answer from the database.
    pub unavailable: Counter,
    /// Look-ups answered by the cache or by another login's look-up.
    pub cache_hits: Counter,
    /// Look-ups in the database.
    pub cache_misses: Counter,
}

impl Metrics {
    /// Registers them all.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("auth");
        registry.register("accepted", "Logins accepted", self.accepted.clone());
        registry.register("denied", "Logins denied, by reason", self.denied.clone());
        registry.register(
            "unavailable",
            "Logins without an answer from the database",
            self.unavailable.clone(),
        );
        registry.register(
            "cache_hits",
            "Device look-ups answered by the cache",
            self.cache_hits.clone(),
        );
        registry.register(
            "cache_misses",
            "Device look-ups in the database",
            self.cache_misses.clone(),
        );
    }

    pub(super) fn count(&self, outcome: Result<(), &Error>) {
        let reason = match outcome {
            Ok(()) => {
                self.accepted.inc();
                return;
            }
            Err(Error::Unavailable(_)) => {
                self.unavailable.inc();
                return;
            }
            Err(Error::Denied(denied)) => denied.reason(),
            Err(Error::Method) => "method",
        };
        self.denied.get_or_create(&[("reason", reason)]).inc();
    }
}

/// Why a login did not give a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device did not prove itself, or may not log in.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It is not known whether the device proved itself: the server is unavailable to it.
    #[error("login cannot be checked")]
    Unavailable(#[source] catalogue::Error),
    /// A method of enhanced authentication that is not known here.
    #[error("authentication method: expected {}", scram::METHOD)]
    Method,
}

/// Why a login is denied. For the log and the metrics: a device is told no more than that it is denied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A client identifier that can be nobody's in the open profile.
    #[error("client id: {0}")]
    ClientId(device::Error),
    /// Malformed or wrong credentials.
    #[error(transparent)]
    Credentials(credentials::Error),
    /// Malformed or wrong messages of a SCRAM exchange.
    #[error(transparent)]
    Scram(scram::Error),
    /// Not in the database.
    #[error("unknown device")]
    UnknownDevice,
    /// In the database and proved, but disabled there.
    #[error("device is disabled")]
    Disabled,
    /// In the database and proved, but blocked there.
    #[error("device is blocked")]
    Blocked,
    /// A client id `register&…`.
    #[error("dynamic registration is not available")]
    Registration,
}

impl Denied {
    /// The reason's fixed name in the metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        use credentials::Error;
        match self {
            Self::ClientId(_) => "client_id",
            Self::Credentials(Error::Identity(_) | Error::Name(..) | Error::Separator(..)) => {
                "identity"
            }
            Self::Credentials(Error::Username) => "username",
            Self::Credentials(Error::Mismatch) => "mismatch",
            Self::Credentials(Error::Password) => "password",
            Self::Credentials(Error::Token) => "token",
            Self::Credentials(Error::Secret) => "secret",
            Self::Scram(scram::Error::Mismatch) => "mismatch",
            Self::Scram(scram::Error::Proof) => "proof",
            Self::Scram(_) => "exchange",
            Self::UnknownDevice => "unknown_device",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Registration => "registration",
        }
    }
}

#[cfg(test)]
#[path = "authenticate_tests.rs"]
mod tests;
