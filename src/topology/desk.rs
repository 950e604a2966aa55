//! Requests that are answered from the catalogue, and the way of answers to the devices.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::answer::Code;
use super::request::{Named, Request, Verb};
use crate::auth::ReplayWindow;
use crate::auth::replay::Binding;
use crate::catalogue::{Catalogue, Error, FIND_MAX, Notice, State, What, tell};
use crate::device::DeviceId;
use crate::jetstream::{Link, atomic};
use crate::mapping::downlink_subject;
use crate::message::{Headers, Message};

/// How long the catalogue may take for one request.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a device can use an answer.
const ANSWER_TTL: &str = "10s";

/// Answers gateway devices; cheap to clone.
#[derive(Clone)]
pub struct Desk {
    catalogue: Catalogue,
    link: Link,
    window: ReplayWindow,
    answers: bool,
}

/// What became of a request.
pub struct Bound {
    /// For the device, if it wants an answer.
    pub answer: Option<Bytes>,
    /// The sub-devices that the gateway device may act for now; none where that is as it was, or not known.
    pub sub_devices: Option<Arc<[DeviceId]>>,
}

impl Desk {
    /// A desk with this catalogue, whose answers and notices go over this link, unless requests are for services alone.
    #[must_use]
    pub fn new(catalogue: Catalogue, link: Link, binding: &Binding, answers: bool) -> Self {
        Self {
            window: ReplayWindow::new(catalogue.clone(), binding.replay_window_s),
            catalogue,
            link,
            answers,
        }
    }

    /// Whether requests are answered here.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.answers
    }

    /// The sub-devices that a gateway device may act for now.
    ///
    /// # Errors
    /// The catalogue does not answer in time.
    pub async fn sub_devices(&self, gateway: &DeviceId) -> Result<Arc<[DeviceId]>, Error> {
        let found = timeout(ANSWER_MAX, self.catalogue.find(gateway)).await;
        let found = found.unwrap_or(Err(Error::Timeout(ANSWER_MAX)))?;
        Ok(found.map_or_else(|| [].into(), |record| record.sub_devices))
    }

    /// The gateway device that a sub-device is bound to now, if it is known within `limit`.
    ///
    /// # Errors
    /// The catalogue does not answer in time.
    pub async fn gateway(
        &self,
        sub_device: &DeviceId,
        limit: Duration,
    ) -> Result<Option<DeviceId>, Error> {
        let limit = limit.min(ANSWER_MAX);
        let found = timeout(limit, self.catalogue.gateway(sub_device)).await;
        found.unwrap_or(Err(Error::Timeout(limit)))
    }

    /// Does what is asked, unless it is about who is online, of which the catalogue knows nothing.
    pub async fn handle(&self, gateway: &DeviceId, request: &Request) -> Bound {
        let done = match (request.verb, &request.devices) {
            (Verb::GetTopo, _) => Ok(Code::Ok),
            (_, None) => Ok(Code::Parameter),
            (verb, Some(devices)) => {
                let change = timeout(ANSWER_MAX, self.change(gateway, verb, devices));
                change.await.unwrap_or(Err(Error::Timeout(ANSWER_MAX)))
            }
        };
        // Read back also behind a failure: the change may have been made.
        let (code, sub_devices) = match (done, self.sub_devices(gateway).await) {
            (Ok(code), Ok(sub_devices)) => (code, Some(sub_devices)),
            (Err(error), sub_devices) => (self.code(&error), sub_devices.ok()),
            (Ok(_), Err(error)) => (self.code(&error), None),
        };
        let named = request.devices.iter().flatten();
        let answer = match (request.verb, &sub_devices) {
            (Verb::GetTopo, Some(sub_devices)) => request.answer(code, sub_devices),
            _ => request.answer(
                code,
                &named.map(|named| named.device.clone()).collect::<Vec<_>>(),
            ),
        };
        Bound {
            answer,
            sub_devices,
        }
    }

    async fn change(&self, gateway: &DeviceId, verb: Verb, named: &[Named]) -> Result<Code, Error> {
        let devices: Vec<DeviceId> = named.iter().map(|named| named.device.clone()).collect();
        let what = match verb {
            Verb::Bind if self.is_signed(named).await? => {
                self.catalogue.bind(gateway, &devices).await?;
                What::Bound
            }
            Verb::Unbind => match self.catalogue.unbind(gateway, &devices).await {
                Err(Error::Unknown(_)) => return Ok(Code::NotBound),
                unbound => {
                    unbound?;
                    What::Unbound
                }
            },
            _ => return Ok(Code::Parameter),
        };
        if let Err(error) = tell(&self.link.client, &[Notice::of(gateway, what)]).await {
            tracing::warn!(%gateway, %error, "gateways are not told of changed bindings");
        }
        Ok(Code::Ok)
    }

    /// Whether each device is there and let in, and signed what it is named with, not too long ago and for this request.
    async fn is_signed(&self, named: &[Named]) -> Result<bool, Error> {
        for part in named.chunks(FIND_MAX) {
            let devices: Vec<&DeviceId> = part.iter().map(|named| &named.device).collect();
            let found = self.catalogue.find_all(&devices).await?;
            for named in part {
                let Some(Ok(record)) = found.get(&named.device) else {
                    return Ok(false);
                };
                if record.state != State::Enabled || !named.is_signed(&record.secret) {
                    return Ok(false);
                }
            }
        }
        let signed: Vec<_> = named.iter().map(Named::signed).collect();
        Ok(!signed.is_empty() && self.window.admits(&signed).await?)
    }

    fn code(&self, error: &Error) -> Code {
        match error {
            Error::Unknown(_) | Error::Exists(_) | Error::Name(_) => Code::NotFound,
            Error::Conflict(_) => Code::BoundToAnother,
            Error::Open(_) | Error::Database(..) | Error::Timeout(_) | Error::Sealing(_) => {
                tracing::error!(%error, "request of a gateway device not answered from the catalogue");
                Code::Database
            }
        }
    }

    /// Stores an answer for the device; `id` tells it from all others.
    pub async fn answer(&self, gateway: &DeviceId, verb: Verb, id: &str, answer: Bytes) {
        self.store(gateway, ("gateway", verb.kind()), id, answer)
            .await;
    }

    /// The same for the answer to a registration, which has no secret in it: a device that is connected got its own before.
    pub async fn answer_registration(&self, device: &DeviceId, id: &str, answer: Bytes) {
        self.store(device, ("ext", "register"), id, answer).await;
    }

    async fn store(
        &self,
        device: &DeviceId,
        (handle, kind): (&str, &str),
        id: &str,
        answer: Bytes,
    ) {
        let mut headers = Headers::with_capacity(128);
        headers.push("Nats-Msg-Id", format!("{kind}.{id}"));
        headers.push("Nats-TTL", ANSWER_TTL);
        headers.push("Jw-Type", kind);
        headers.push("Jw-Qos", "1");
        let answer = Message {
            subject: downlink_subject(handle, device),
            headers,
            payload: answer,
        };
        // A device without an answer asks again.
        if let Err(error) = atomic::commit(&self.link, &[answer], ANSWER_MAX).await {
            tracing::debug!(%device, %error, "answer to a device not stored");
        }
    }
}
