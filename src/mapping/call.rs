//! What a service asks a connected device: `device.rpc.<protocol>.<handle>.<productID>.<deviceName>`, as the PUBLISH that the
//! device gets, and what of its uplinks answers it.
//!
//! The message has the forms and headers of a downlink. Nothing of it is stored.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::Error;
use super::capture::{Capture, Captures};
use super::header;
use super::rule::Rule;
use super::rules::Mapping;
use crate::device::{Address, DeviceId, Direction};
use crate::message::{Headers, Message, Subject};
use crate::mqtt::{Publish, QoS, Version};

/// How the subjects of requests start, and those of downlinks.
const CALL: &str = "device.rpc.";
const DOWN: &str = "device.down.";
/// How long the sender waits, in milliseconds.
const TIMEOUT: &str = "Jw-Timeout-Ms";

/// A request to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which device.
    pub device: DeviceId,
    /// How long its sender waits, in milliseconds; none: it does not say.
    pub timeout_ms: Option<u64>,
    /// The PUBLISH as the handle's down topic has it; QoS 0.
    publish: Publish,
    /// `$rpc/down/<id>/P/D`, and where that is answered.
    down: String,
    up: String,
    id: Box<str>,
    /// What a thing-model answer has in common with the request; none if it names no `msgToken`.
    method: Option<Method>,
}

/// Handle, type and `msgToken` of a thing-model method.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Method {
    handle: Box<str>,
    kind: Box<str>,
    token: Box<str>,
}

impl Mapping {
    /// The subject filter of all requests to devices; none where messages are for whoever subscribes.
    #[must_use]
    pub fn calls(&self) -> Option<Subject> {
        let filter = self.delivery.filters.first();
        let own = filter.filter(|_| self.has_one_receiver())?;
        let rest = own.strip_prefix(DOWN)?;
        Some(format!("{CALL}{rest}").into())
    }

    /// Reads a request, which `id` names: one level of a topic, unique among the requests that wait.
    ///
    /// # Errors
    /// [`Error::Subject`] if no device can be asked under its subject; otherwise what in it is wrong, as in a downlink.
    pub fn call(&self, message: &Message, id: &str) -> Result<Call, Error> {
        let unknown = || Error::Subject(message.subject.to_string());
        let rest = message.subject.strip_prefix(CALL).ok_or_else(unknown)?;
        let subject = format!("{DOWN}{rest}");
        let device = self.receiver(&subject).ok_or_else(unknown)?;
        let down = self.rpc_topic(Direction::Down, &device, id);
        let up = self.rpc_topic(Direction::Up, &device, id);
        let (Some(down), Some(up)) = (down, up) else {
            return Err(unknown());
        };
        let mut headers = Headers::with_capacity(256);
        headers.push(header::STORED_SUBJECT, &subject);
        headers.push(header::SEQUENCE, "0");
        let own_topic = self.is_rpc(&subject).then_some(&*down);
        let topic = own_topic.map(|topic| (header::TOPIC, topic));
        let said = message.headers.iter().filter(|(name, _)| {
            let is_replaced = own_topic.is_some() && *name == header::TOPIC;
            !(is_replaced || name.starts_with("Nats-"))
        });
        for (name, value) in topic.into_iter().chain(said) {
            headers.push(name, value);
        }
        let downlink = self.downlink(&Message {
            subject: subject.into(),
            headers,
            payload: message.payload.clone(),
        })?;
        let timeout = message.headers.get(TIMEOUT);
        let timeout_ms = timeout
            .map(|text| super::content::number("header Jw-Timeout-Ms", text))
            .transpose()?;
        let mut publish = downlink.as_publish();
        publish.qos = QoS::AtMostOnce;
        publish.retain = false;
        let method = self.method_of(&publish);
        Ok(Call {
            device,
            timeout_ms,
            publish,
            down,
            up,
            id: id.into(),
            method,
        })
    }

    fn is_rpc(&self, subject: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| {
            let is_its = || rule.subject.value.read(subject).is_some();
            rule.is_delivered() && rule.pattern.value.has(Capture::Id) && is_its()
        })
    }

    fn rpc_topic(&self, direction: Direction, device: &DeviceId, id: &str) -> Option<String> {
        let has_id =
            |rule: &&Arc<Rule>| rule.direction == direction && rule.pattern.value.has(Capture::Id);
        let rule = self.rules.iter().find(has_id)?;
        let captures = Captures {
            id,
            product: device.product(),
            name: device.name(),
            ..Captures::default()
        };
        let mut topic = String::with_capacity(64);
        rule.pattern.value.write(&captures, &mut topic);
        Some(topic)
    }

    fn method_of(&self, publish: &Publish) -> Option<Method> {
        let address = self.address(&publish.topic)?;
        let token = message_token(&publish.payload)?;
        Some(Method {
            handle: address.handle.into(),
            kind: address.kind.into(),
            token: token.into(),
        })
    }
}

impl Call {
    /// The PUBLISHes that ask a device of this version, the one to prefer first; the first that it subscribed to is sent.
    #[must_use]
    pub fn publishes(&self, version: Version) -> Vec<Publish> {
        let mut publish = self.publish.clone();
        if version == Version::V5 {
            publish.properties.response_topic = Some(self.up.as_str().into());
            let id = Bytes::copy_from_slice(self.id.as_bytes());
            publish.properties.correlation_data = Some(id);
        }
        let mut of_its_own = publish.clone();
        of_its_own.topic = self.down.as_str().into();
        // A device of 3.1.1 can answer on the handle's topic only what it can tell from other answers.
        match version == Version::V5 || self.method.is_some() {
            true => vec![publish, of_its_own],
            false => vec![of_its_own],
        }
    }

    /// Whether an uplink of the device, which `address` was read of, answers it.
    #[must_use]
    pub fn is_answered_by(&self, address: &Address<'_>, publish: &Publish) -> bool {
        if address.topic == self.up {
            return true;
        }
        let Some(method) = &self.method else {
            return false;
        };
        let is_its = address.direction == Direction::Up
            && address.product == self.device.product()
            && address.name == self.device.name()
            && address.handle == &*method.handle
            && address.kind == &*method.kind;
        is_its && message_token(&publish.payload).as_deref() == Some(&*method.token)
    }
}

/// The `msgToken` of a JSON object, which is not empty.
fn message_token(payload: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Head<'p> {
        #[serde(borrow, rename = "msgToken")]
        token: Option<Cow<'p, str>>,
    }
    payload.trim_ascii_start().starts_with(b"{").then_some(())?;
    let head: Head<'_> = serde_json::from_slice(payload).ok()?;
    head.token.filter(|token| !token.is_empty())
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
