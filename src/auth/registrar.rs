//! Answers registrations: a device that knows its product's secret gets its own, once, before it logged in for the first time.
//!
//! Off unless the configuration says otherwise; then everybody may connect as `register&P&N`, and do nothing else. What a device must
//! know, and which products are open, is in the catalogue.
//!
//! Invariants: every answer comes within `timeout_ms`; a nonce is good once within `replay_window_s`, on whichever node; without the
//! right signature nothing is written, and nothing of a device is told but whether it is there and activated.

use std::time::Duration;

use async_nats::Client;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::auth::credentials::Credentials;
use crate::auth::registration::{Refusal, Request};
use crate::auth::replay::{ReplayWindow, Signed};
use crate::catalogue::{
    self, Catalogue, Notice, ProductSecret, Record, Registration, State, What, tell,
};
use crate::device::DeviceId;

/// How registrations are answered (`[auth.registration]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether devices may connect to register themselves.
    pub enabled: bool,
    /// By how much the time of a request may differ, and for how long its nonce is used up, in seconds. 0: neither is looked at, as
    /// devices without a clock need it.
    pub replay_window_s: u32,
    /// How long an answer may take, in milliseconds.
    pub timeout_ms: u64,
    /// How many requests are worked on at once; more wait, within `timeout_ms`.
    pub inflight_max: usize,
    /// How long such a connection may last, in seconds.
    pub connection_max_s: u32,
    /// How many requests it may make.
    pub requests_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: false,
            replay_window_s: 300,
            timeout_ms: 2_000,
            inflight_max: 64,
            connection_max_s: 60,
            requests_max: 10,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    pub(super) fn validate(&self) -> Vec<String> {
        [
            ("timeout_ms", self.timeout_ms),
            ("inflight_max", self.inflight_max as u64),
            ("connection_max_s", self.connection_max_s.into()),
            ("requests_max", self.requests_max.into()),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("registration.{key}: expected more than 0"))
        .collect()
    }
}

/// What answers.
pub struct Registrar {
    /// Its limits.
    pub config: Config,
    catalogue: Catalogue,
    window: ReplayWindow,
    /// Who tells the other nodes of new devices.
    nats: Option<Client>,
    room: Semaphore,
    answers: Answers,
}

/// Answers by their number.
pub(super) type Answers = Family<[(&'static str, &'static str); 1], Counter>;

impl Registrar {
    pub(super) fn new(
        config: &Config,
        catalogue: Catalogue,
        nats: Option<&Client>,
        answers: Answers,
    ) -> Self {
        Self {
            config: config.clone(),
            window: ReplayWindow::new(catalogue.clone(), config.replay_window_s),
            catalogue,
            nats: nats.cloned(),
            room: Semaphore::new(config.inflight_max),
            answers,
        }
    }

    /// The answer to the payload of a request from this device, whoever sent it; none to what is no request.
    pub async fn answer(&self, device: &DeviceId, payload: &[u8]) -> Option<Vec<u8>> {
        let Some(request) = Request::read(payload) else {
            self.count("malformed");
            return None;
        };
        let limit = Duration::from_millis(self.config.timeout_ms);
        let outcome = timeout(limit, self.register(device, &request)).await;
        match outcome.unwrap_or(Err(Refusal::Database)) {
            Ok(answer) => {
                tracing::info!(%device, "device is registered");
                self.count("registered");
                Some(answer)
            }
            Err(refusal) => {
                tracing::info!(%device, %refusal, "registration refused");
                self.count(refusal.reason());
                Some(request.refuse(refusal))
            }
        }
    }

    /// The answer to a device that logged in: it has its secret.
    pub async fn answer_activated(&self, device: &DeviceId, payload: &[u8]) -> Option<Vec<u8>> {
        let request = Request::read(payload)?;
        let limit = Duration::from_millis(self.config.timeout_ms);
        let asked = timeout(limit, async {
            let _room = self.room.acquire().await;
            self.product(device).await
        });
        let refusal = match asked.await.unwrap_or(Err(Refusal::Database)) {
            Ok(_) => Refusal::Activated,
            Err(refusal) => refusal,
        };
        self.count(refusal.reason());
        Some(request.refuse(refusal))
    }

    fn count(&self, outcome: &'static str) {
        self.answers.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// The order of the checks is the profile's.
    async fn register(&self, device: &DeviceId, request: &Request) -> Result<Vec<u8>, Refusal> {
        let _room = self.room.acquire().await;
        let (registration, secret) = self.product(device).await?;
        let found = self.catalogue.find(device).await.map_err(no_answer)?;
        match &found {
            Some(record) if record.state != State::Enabled => return Err(Refusal::NotFound),
            Some(record) if record.is_activated => return Err(Refusal::Activated),
            None if registration != Registration::New => return Err(Refusal::NotFound),
            // Whose name could not be told from the separators around it could never log in.
            None if Credentials::check(device).is_err() => return Err(Refusal::NotFound),
            Some(_) | None => {}
        }
        let secret = secret.ok_or(Refusal::Encryption)?;
        if !request.is_signed(device, &secret) || !self.is_fresh(device, request).await? {
            return Err(Refusal::Parameter);
        }
        let record = match found {
            Some(record) => record,
            None => self.add(device).await?,
        };
        request.accept(&secret, &record.secret)
    }

    /// What the device's product lets register, and with which secret.
    async fn product(
        &self,
        device: &DeviceId,
    ) -> Result<(Registration, Option<ProductSecret>), Refusal> {
        let product = self.catalogue.registration(device.product()).await;
        match product.map_err(no_answer)?.ok_or(Refusal::NotFound)? {
            (Registration::Closed, _) => Err(Refusal::Closed),
            open => Ok(open),
        }
    }

    /// Whether it is time for the request, and it did not come before.
    async fn is_fresh(&self, device: &DeviceId, request: &Request) -> Result<bool, Refusal> {
        let signed = Signed {
            device,
            nonce: request.nonce,
            timestamp_s: request.timestamp_s,
        };
        self.window.admits(&[signed]).await.map_err(no_answer)
    }

    /// Another node may add it at the same time: then that one's secret is told.
    async fn add(&self, device: &DeviceId) -> Result<Record, Refusal> {
        let names = [device.name().to_owned()];
        match self.catalogue.add(device.product(), &names, None).await {
            Ok(mut added) => {
                self.tell(device).await;
                added.pop().ok_or(Refusal::Database)
            }
            Err(catalogue::Error::Exists(_)) => {
                let found = self.catalogue.find(device).await.map_err(no_answer)?;
                found.ok_or(Refusal::NotFound)
            }
            Err(error) => Err(no_answer(error)),
        }
    }

    /// So that a node that was asked for it before it was there knows it now. A notice that is lost ends with what was remembered.
    async fn tell(&self, device: &DeviceId) {
        let Some(nats) = &self.nats else { return };
        if let Err(error) = tell(nats, &[Notice::of(device, What::Added)]).await {
            tracing::warn!(%device, error, "other nodes are not told of a new device");
        }
    }
}

fn no_answer(error: catalogue::Error) -> Refusal {
    tracing::warn!(
        error = &error as &dyn std::error::Error,
        "registration cannot be checked"
    );
    match error {
        catalogue::Error::Sealing(_) => Refusal::Encryption,
        _ => Refusal::Database,
    }
}
