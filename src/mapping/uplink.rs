//! A PUBLISH of a device to the NATS message that is stored, in the form that its handle has (SUBJECTS §4).
//!
//! The identity is given: whoever calls has authorised it. The payload is never read or copied in the `native` form.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::BytesMut;
use bytestring::ByteString;

use super::Error;
use super::capture::{Capture, Captures};
use super::envelope;
use super::header;
use super::percent::take;
use super::retained;
use super::rule::Rule;
use super::rules::Mapping;
use super::settings::Form;
use super::subject::SUBJECT_BYTES_MAX;
use crate::device::{Address, DeviceId, Direction};
use crate::message::{Headers, Message, Subject};
use crate::mqtt::{Publish, PublishProperties};

/// What the gateway says about a PUBLISH that it received.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'a> {
    /// The message's identity (`Jw-Id`), the same through every retry; visible ASCII.
    pub id: &'a str,
    /// When it was received, Unix milliseconds.
    pub received_ms: u64,
    /// The W3C trace context of a trace that starts here; the device's own, if valid, goes before it.
    pub traceparent: &'a str,
}

/// What a PUBLISH becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// To be stored.
    pub message: Message,
    /// Where the same message goes live once it is stored, if anywhere.
    pub live: Option<Subject>,
    /// What its topic's retained message becomes, under the subject of its key; removed if it has no payload. None without
    /// RETAIN, and where nobody can subscribe to the topic.
    pub retained: Option<Message>,
}

/// What is read from a PUBLISH once, for every form.
pub(super) struct Received<'a> {
    pub(super) id: &'a DeviceId,
    pub(super) rule: &'a Rule,
    pub(super) captures: Captures<'a>,
    pub(super) publish: &'a Publish,
    pub(super) receipt: &'a Receipt<'a>,
    /// The trace context, and whether it was taken from the user properties.
    pub(super) traceparent: (&'a str, bool),
}

impl Mapping {
    /// The message of a PUBLISH on `address`, which is its topic's: no alias stands for that any more.
    ///
    /// `identity` is the device that the topic names; in the open profile, whose topics name nobody, the publisher.
    ///
    /// # Errors
    /// [`Error::Unmapped`] if the topic is not one of that device's uplinks; [`Error::SubjectTooLong`] and
    /// [`Error::HeadersTooLong`] if JetStream would refuse the message.
    pub fn uplink(
        &self,
        identity: &DeviceId,
        address: &Address<'_>,
        publish: &Publish,
        receipt: &Receipt<'_>,
    ) -> Result<Uplink, Error> {
        let (rule, captures) = self
            .find(&publish.topic)
            .filter(|(rule, captures)| {
                let own =
                    captures.product == identity.product() && captures.name == identity.name();
                match rule.direction {
                    Direction::Up => own && rule.handle.value == address.handle,
                    Direction::Down => false,
                    Direction::Both => true,
                }
            })
            .ok_or_else(|| Error::Unmapped(publish.topic.to_string()))?;
        let device = publish.properties.user.iter().find_map(|(name, value)| {
            (name == header::TRACEPARENT && header::is_traceparent(value)).then_some(value)
        });
        let received = Received {
            id: identity,
            rule,
            captures,
            publish,
            receipt,
            // What clients send each other comes unaltered, this property too [MQTT-3.3.2-17].
            traceparent: (
                device.unwrap_or(receipt.traceparent),
                device.is_some() && rule.direction == Direction::Up,
            ),
        };
        let mut out = BytesMut::with_capacity(512);
        rule.subject.value.write(identity, &publish.topic, &mut out);
        let subject = checked(take(&mut out))?;
        let live = rule.live.as_ref().map(|live| {
            live.value.write(identity, &publish.topic, &mut out);
            checked(take(&mut out))
        });
        let (headers, payload) = match rule.form {
            Form::Native => (received.native(&mut out), publish.payload.clone()),
            Form::Protobuf => (received.protobuf(&mut out), envelope::encode(&received)),
        };
        match headers.wire_bytes() {
            bytes if bytes > header::BYTES_MAX => Err(Error::HeadersTooLong(bytes)),
            _ => {
                let message = Message {
                    subject,
                    headers,
                    payload,
                };
                let retains = publish.retain && rule.is_delivered();
                let expiry_s = publish.properties.message_expiry_interval;
                Ok(Uplink {
                    retained: retains.then(|| retained::copy(&message, expiry_s)),
                    message,
                    live: live.transpose()?,
                })
            }
        }
    }
}

impl Received<'_> {
    fn native(&self, out: &mut BytesMut) -> Headers {
        let publish = self.publish;
        let mut headers = self.identified(out, 12);
        if !self.captures.kind.is_empty() {
            let kind = publish.topic.slice_ref(self.captures.kind);
            headers.push(header::TYPE, header::value(&kind));
        }
        headers.push(header::QOS, header::qos(publish.qos));
        if publish.retain {
            headers.push(header::RETAIN, ByteString::from_static("1"));
        }
        if self.rule.direction == Direction::Both {
            let client = ByteString::from(&*self.id.client_id());
            headers.push(header::CLIENT, header::value(&client));
        }
        if self.captures.extra || self.rule.pattern.value.has(Capture::Id) {
            headers.push(header::TOPIC, header::value(&publish.topic));
        }
        self.mqtt5(&publish.properties, &mut headers);
        headers
    }

    fn protobuf(&self, out: &mut BytesMut) -> Headers {
        let mut headers = self.identified(out, 5);
        headers.push(
            header::CONTENT_TYPE,
            ByteString::from_static(envelope::CONTENT_TYPE),
        );
        headers
    }

    /// The headers that every form has.
    fn identified(&self, out: &mut BytesMut, capacity: usize) -> Headers {
        let mut headers = Headers::with_capacity(capacity);
        out.extend_from_slice(self.receipt.id.as_bytes());
        let id = take(out);
        headers.push(header::ID, id.clone());
        headers.push(header::MSG_ID, id);
        write!(out, "{}", self.receipt.received_ms).expect("a buffer in memory grows");
        headers.push(header::TS, take(out));
        out.extend_from_slice(self.traceparent.0.as_bytes());
        headers.push(header::TRACEPARENT, take(out));
        headers
    }

    /// What MQTT 5 adds (G40), each where it is present.
    fn mqtt5(&self, properties: &PublishProperties, headers: &mut Headers) {
        if let Some(content_type) = &properties.content_type {
            headers.push(header::CONTENT_TYPE, header::content_type(content_type));
        }
        if let Some(format) = properties.payload_format_indicator {
            headers.push(header::PAYLOAD_FORMAT, format.to_string());
        }
        if let Some(expires_ms) = self.expires_ms() {
            headers.push(header::EXPIRES, expires_ms.to_string());
        }
        if let Some(topic) = &properties.response_topic {
            headers.push(header::RESPONSE_TOPIC, header::value(topic));
        }
        if let Some(correlation) = &properties.correlation_data {
            headers.push(header::CORRELATION, BASE64.encode(correlation));
        }
        let mut order = Vec::new();
        for (name, value) in self.user() {
            let name = header::user_name(name);
            if self.rule.direction == Direction::Both {
                order.extend(name.strip_prefix(header::USER).map(str::to_owned));
            }
            headers.push(name, header::value(&value.into()));
        }
        if order.iter().any(|name| order.first() != Some(name)) {
            headers.push(header::ORDER, order.join(header::BETWEEN_NAMES)); // [MQTT-3.3.2-18]
        }
    }

    /// When it is not worth delivering any more, Unix milliseconds.
    pub(super) fn expires_ms(&self) -> Option<u64> {
        let seconds = self.publish.properties.message_expiry_interval?;
        Some(
            self.receipt
                .received_ms
                .saturating_add(u64::from(seconds) * 1000),
        )
    }

    /// The user properties, without the trace context that went to its own place.
    pub(super) fn user(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut moved = self.traceparent.1.then_some(self.traceparent.0);
        self.publish
            .properties
            .user
            .iter()
            .filter(move |(name, value)| {
                let trace = *name == header::TRACEPARENT && moved == Some(*value);
                if trace {
                    moved = None;
                }
                !trace
            })
    }
}

fn checked(subject: Subject) -> Result<Subject, Error> {
    match subject.len() {
        bytes if bytes > SUBJECT_BYTES_MAX => Err(Error::SubjectTooLong(bytes)),
        _ => Ok(subject),
    }
}

#[cfg(test)]
#[path = "uplink_tests.rs"]
mod tests;
