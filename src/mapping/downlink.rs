//! A stored downlink to the PUBLISH that a device gets, whatever its form (SUBJECTS §4).
//!
//! The device is the subject's, never the payload's. Whether the device is here, or still wants it, is not decided here.
//! What a sender wrote and cannot be honoured is an error with its place, never guessed.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use super::Error;
use super::capture::{Capture, Captures};
use super::content::{Content, MQTT_STRING_MAX, number, wrong};
use super::header;
use super::known::Known;
use super::pattern::is_name;
use super::rule::Rule;
use super::rules::Mapping;
use super::subject::{SUBJECT_BYTES_MAX, is_filter, is_for_services};
use super::template::Named;
use crate::device::DeviceId;
use crate::message::{Message, Subject};
use crate::mqtt::{Publish, PublishProperties, QoS};

/// What a device gets, and what the gateway needs to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downlink {
    /// A valid topic name; with the device profile one of the device's down topics.
    pub topic: String,
    /// As the sender asks; 1 if it does not say.
    pub qos: QoS,
    /// To be retained.
    pub retain: bool,
    /// The device's payload.
    pub payload: Bytes,
    /// For MQTT 5 devices. Without the expiry interval: [`Expiry::left`] at the time of sending.
    pub properties: PublishProperties,
    /// Its place in its stream.
    pub stream_sequence: u64,
    /// The sequence of the message before it on its subject, 0 if there is none; says nothing on a message read back.
    pub last_sequence: Option<u64>,
    /// Until when it is worth delivering; none: as long as it is stored.
    pub expires: Option<Expiry>,
    /// The sender's `Jw-Id`, else its `Nats-Msg-Id`.
    pub id: Option<String>,
    /// Where the sender wants to be told that the device has it (`Jw-Receipt`).
    pub receipt: Option<Subject>,
    /// The client identifier of the client that published it (`Jw-Client`); none if a service did.
    pub publisher: Option<String>,
}

impl Downlink {
    /// The PUBLISH as it leaves at `now_ms` (Unix milliseconds), without packet identifier; none if it expired.
    #[must_use]
    pub fn publish(&self, now_ms: u64) -> Option<Publish> {
        let mut publish = self.as_publish();
        if let Some(expires) = self.expires {
            publish.properties.message_expiry_interval = Some(expires.left(now_ms)?); // [MQTT-3.3.2-6]
        }
        Some(publish)
    }

    /// The PUBLISH that it was made of, whatever the time.
    #[must_use]
    pub fn as_publish(&self) -> Publish {
        Publish {
            dup: false,
            qos: self.qos,
            retain: self.retain,
            topic: self.topic.as_str().into(),
            packet_id: None,
            properties: self.properties.clone(),
            payload: self.payload.clone(),
        }
    }
}

/// The end of a downlink's lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry {
    /// Unix milliseconds.
    pub unix_ms: u64,
}

impl Expiry {
    /// The Message Expiry Interval at `now_ms` (Unix milliseconds), in seconds, begun ones counted; none if it expired.
    ///
    /// Sent is what is left, not what the sender gave [MQTT-3.3.2-6].
    #[must_use]
    pub fn left(self, now_ms: u64) -> Option<u32> {
        let left = self.unix_ms.checked_sub(now_ms).filter(|left| *left > 0)?;
        Some(u32::try_from(left.div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

impl Mapping {
    /// The PUBLISH of a message of [`Mapping::delivery`] or of the bucket of retained messages, live or read back.
    ///
    /// Its subject is the header `Nats-Subject`, or its own without that; `Nats-Sequence` must be there.
    ///
    /// # Errors
    /// [`Error::Subject`] if no rule delivers its subject; [`Error::Value`] and [`Error::Protobuf`] name what in it is wrong.
    pub fn downlink(&self, message: &Message) -> Result<Downlink, Error> {
        let known = Known::of(&message.headers);
        // The server sets this header, also over one that a sender wrote.
        let subject = known.stored_subject.unwrap_or(&message.subject);
        let subject = self.retained_subject(subject).unwrap_or(subject);
        let mut delivered = self.rules.iter().filter(|rule| rule.is_delivered());
        let (rule, named) = delivered
            .find_map(|rule| Some((rule, rule.subject.value.read(subject)?)))
            .ok_or_else(|| Error::Subject(subject.to_owned()))?;
        let (topic, content) = match named {
            Named::Device(id) => {
                let content = Content::read(message, &known, rule, &id)?;
                (topic(rule, &id, &content)?, content)
            }
            Named::Topic(topic) => (topic, Content::native(message, &known)?),
        };
        let sequence = known.sequence.unwrap_or_default();
        Ok(Downlink {
            topic,
            qos: content.qos,
            retain: content.retain,
            payload: content.payload,
            properties: content.properties,
            stream_sequence: number("header Nats-Sequence", sequence)?,
            last_sequence: known
                .last_sequence
                .map(|text| number("header Nats-Last-Sequence", text))
                .transpose()?,
            expires: content.expires,
            id: content.id,
            receipt: known.receipt.map(receipt).transpose()?,
            publisher: known.client.map(|client| header::text(client).into_owned()),
        })
    }
}

impl Mapping {
    /// The end of a stored message's lifetime, if its sender gave it one; cheap where it did not.
    #[must_use]
    pub fn expiry(&self, message: &Message) -> Option<Expiry> {
        let headers = &message.headers;
        let says = [header::EXPIRES, header::TTL]
            .iter()
            .any(|name| headers.get(name).is_some());
        let may_say =
            says || headers.get(header::CONTENT_TYPE) == Some(super::envelope::CONTENT_TYPE);
        may_say
            .then(|| self.downlink(message).ok()?.expires)
            .flatten()
    }
}

fn receipt(subject: &str) -> Result<Subject, Error> {
    let is_subject =
        is_filter(subject) && !subject.split('.').any(|token| matches!(token, "*" | ">"));
    let is_short = subject.len() <= SUBJECT_BYTES_MAX;
    match is_subject && is_short && is_for_services(subject) {
        true => Ok(subject.into()),
        false => Err(wrong(
            "header Jw-Receipt",
            subject,
            "a subject of services, without wildcards",
        )),
    }
}

/// The topic that the sender names, or the one of the type that it names, its method has, or the handle has.
fn topic(rule: &Rule, id: &DeviceId, content: &Content) -> Result<String, Error> {
    let pattern = &rule.pattern.value;
    if let Some(topic) = &content.topic {
        let own = pattern.read(topic).is_some_and(|found| {
            found.product == id.product()
                && found.name == id.name()
                && found.kind != "+"
                && found.id != "+"
        });
        if own && topic.len() <= MQTT_STRING_MAX {
            return Ok(topic.clone());
        }
        return Err(wrong(
            "Jw-Topic or field topic",
            topic,
            format!("{pattern} of {id}"),
        ));
    }
    if pattern.has(Capture::Id) {
        return Err(wrong(
            "Jw-Topic or field topic",
            "",
            format!("{pattern} of {id}"),
        ));
    }
    let method = || rule.methods.get(&*method(&content.payload)?);
    let kind = match content.kind.as_deref() {
        Some(kind) => kind,
        None if !pattern.has(Capture::Type) => "",
        None => method()
            .or(rule.default_type.as_ref())
            .map(String::as_str)
            .unwrap_or_default(),
    };
    if pattern.has(Capture::Type) && !(is_name(kind) && kind.len() < MQTT_STRING_MAX / 2) {
        return Err(wrong(
            "Jw-Type or field type",
            kind,
            "one level of a topic name",
        ));
    }
    let captures = Captures {
        kind,
        product: id.product(),
        name: id.name(),
        ..Captures::default()
    };
    let mut topic = String::with_capacity(64);
    pattern.write(&captures, &mut topic);
    Ok(topic)
}

/// The `method` of a JSON object, read in one pass that keeps nothing else; none of anything but a JSON object.
fn method(payload: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Head<'p> {
        #[serde(borrow)]
        method: Option<Cow<'p, str>>,
    }
    // An array would be read as the fields in order.
    payload.trim_ascii_start().starts_with(b"{").then_some(())?;
    serde_json::from_slice::<Head<'_>>(payload).ok()?.method
}

#[cfg(test)]
#[path = "downlink_tests.rs"]
pub(super) mod tests;
