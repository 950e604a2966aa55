//! Enhanced authentication (MQTT 5 §4.12): CONNECT's method and client id -> an exchange of authentication data that
//! ends with a [`Device`] or a denial. Re-authentication is another exchange for the same client id.
//!
//! It does not speak AUTH: the connection carries the data and the reason codes. A method is a [`Mechanism`]; the one
//! there is, SCRAM-SHA-256, is in `scram`.
//!
//! Invariants: only the look-up of the device waits, under the rules of every login; a device that is not there runs
//! the same exchange at the same cost as one that is, down to a salt that stays the same, and fails only at the proof.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use quick_cache::sync::Cache;

use crate::auth::activation::Activations;
use crate::auth::authenticate::{Authenticator, Config};
use crate::auth::credentials::Secret;
use crate::auth::denied::{Denied, Error};
use crate::auth::metrics::Metrics;
use crate::auth::scram::{self, Account, Challenge, Keys};
use crate::auth::step::claimed;
use crate::catalogue::{Record, State};
use crate::device::{Device, DeviceId};

/// How many random bytes the server adds to a nonce.
const NONCE_BYTES: usize = 18;

/// What follows the device's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An AUTH with Continue authentication (0x18) and these authentication data; none when empty.
    Continue(Bytes),
    /// The end: CONNACK, or in a re-authentication AUTH, with Success and these authentication data.
    Done {
        /// Who proved itself; always the device of the client id.
        device: Device,
        /// The server's proof to the device.
        data: Bytes,
    },
}

/// The server's side of an authentication method, for one exchange.
pub trait Mechanism: Send {
    /// Answers the device's data; empty for a packet without any.
    ///
    /// # Errors
    /// [`Denied`] ends the exchange, and every step behind its end is denied.
    fn step(&mut self, data: &[u8]) -> Result<Step, Denied>;
}

/// An authentication under way.
pub struct Exchange {
    mechanism: Box<dyn Mechanism>,
    metrics: Metrics,
    /// Where the device's first login is noted, if this is one.
    first: Option<Activations>,
}

impl Exchange {
    /// Answers the authentication data of CONNECT and then of each AUTH; empty for a packet without any.
    ///
    /// # Errors
    /// [`Error::Denied`] ends the exchange, and every step behind its end is denied.
    pub fn step(&mut self, data: &[u8]) -> Result<Step, Error> {
        let step = self.mechanism.step(data).map_err(Error::Denied);
        match &step {
            Ok(Step::Continue(_)) => {}
            Ok(Step::Done { device, .. }) => {
                self.metrics.count(Ok(()));
                if let Some(first) = self.first.take() {
                    first.note(&device.id);
                }
            }
            Err(error) => self.metrics.count(Err(error)),
        }
        step
    }
}

impl Authenticator {
    /// Begins the authentication of the device of this client id by this Authentication Method.
    ///
    /// # Errors
    /// [`Error::Method`] when the method is not known here [MQTT-4.12.0-1], [`Error::Denied`] when no device can have
    /// the client id, [`Error::Unavailable`] when the database could not be asked in time.
    pub async fn begin(&self, method: &str, client_id: &str) -> Result<Exchange, Error> {
        let begun = self.begin_at(Instant::now(), method, client_id).await;
        if let Err(error) = &begun {
            self.metrics.count(Err(error));
        }
        begun
    }

    async fn begin_at(
        &self,
        now: Instant,
        method: &str,
        client_id: &str,
    ) -> Result<Exchange, Error> {
        // The open profile has no secrets that a method could prove, and neither has a chain without devices.
        let chain = self.chain.as_ref().filter(|_| method == scram::METHOD);
        let chain = chain.ok_or(Error::Method)?;
        let scram = chain.scram.as_ref().ok_or(Error::Method)?;
        let device = claimed(client_id)?;
        let record = chain.records.find(now, &device).await?;
        let is_first = record.as_ref().is_some_and(|record| !record.is_activated);
        Ok(Exchange {
            mechanism: Box::new(scram.server(device, record)),
            metrics: self.metrics.clone(),
            first: is_first.then(|| chain.activations.clone()),
        })
    }
}

/// What all SCRAM exchanges share.
pub(super) struct Scram {
    /// Random, of this process alone: salts and the passwords of devices that are not there are derived from it.
    key: [u8; 32],
    iterations: u32,
    /// The keys made lately and what they were made of. A device reconnects and re-authenticates with the same ones.
    keys: Cache<DeviceId, (Secret, Keys)>,
}

impl Scram {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            key: random(),
            iterations: config.scram_iterations,
            keys: Cache::new(config.cache_entries_max),
        }
    }

    /// The server's side of an exchange with the device, which the database knows or not.
    fn server(&self, device: DeviceId, record: Option<Record>) -> scram::Server {
        let (account, secret) = match record {
            None => (Account::Unprovable(Denied::UnknownDevice), None),
            Some(record) => match record.secret.password() {
                Err(error) => (Account::Unprovable(Denied::Credentials(error)), None),
                Ok(_) => match record.state {
                    State::Enabled => (Account::Enabled(record.sub_devices), Some(record.secret)),
                    State::Disabled => (Account::Shut(Denied::Disabled), Some(record.secret)),
                    State::Blocked => (Account::Shut(Denied::Blocked), Some(record.secret)),
                },
            },
        };
        let derived =
            |purpose: &str| scram::hmac(&self.key, format!("{purpose} {device}").as_bytes());
        let salt: [u8; 32] = derived("salt");
        let secret = secret.unwrap_or_else(|| Secret::from_key(&derived("secret")));
        let challenge = Challenge {
            nonce: STANDARD.encode(random::<NONCE_BYTES>()),
            salt: salt.into(),
            iterations: self.iterations,
        };
        let keys = self.keys(&device, secret, &challenge);
        scram::Server::new(device, account, keys, challenge)
    }

    /// The keys of the device's secret. Making them takes about as long as the signature of a TLS handshake, which is
    /// why they are made in place.
    fn keys(&self, device: &DeviceId, secret: Secret, challenge: &Challenge) -> Keys {
        if let Some((of, keys)) = self.keys.get(device)
            && of.text() == secret.text()
        {
            return keys;
        }
        let keys = Keys::derive(secret.text(), &challenge.salt, challenge.iterations);
        self.keys.insert(device.clone(), (secret, keys.clone()));
        keys
    }
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .expect("the operating system has randomness by the time a service starts");
    bytes
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
