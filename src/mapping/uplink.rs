//! A PUBLISH of a device to the NATS message that is stored, in the form that its handle has (SUBJECTS §4).
//!
//! The identity is given: whoever calls has authorised it. The payload is never read or copied in the `native` form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::Error;
use super::envelope;
use super::header;
use super::retained;
use super::route::Route;
use super::rules::Mapping;
use super::settings::Form;
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
    pub(super) route: &'a Route,
    pub(super) publish: &'a Publish,
    pub(super) receipt: &'a Receipt<'a>,
    /// The trace context, and whether it was taken from the user properties.
    pub(super) traceparent: (&'a str, bool),
}

impl Mapping {
    /// The message of a single PUBLISH: see [`Mapping::route`] and [`Route::uplink`].
    ///
    /// # Errors
    /// Theirs, and [`Error::Unmapped`] if `address` is not its topic's.
    pub fn uplink(
        &self,
        identity: &DeviceId,
        address: &Address<'_>,
        publish: &Publish,
        receipt: &Receipt<'_>,
    ) -> Result<Uplink, Error> {
        if address.topic != &*publish.topic {
            return Err(Error::Unmapped(publish.topic.to_string()));
        }
        self.route(identity, address)?.uplink(publish, receipt)
    }
}

impl Route {
    /// The message of a PUBLISH on this route's topic.
    ///
    /// # Errors
    /// [`Error::HeadersTooLong`] if JetStream would refuse it.
    pub fn uplink(&self, publish: &Publish, receipt: &Receipt<'_>) -> Result<Uplink, Error> {
        let device = publish.properties.user.iter().find_map(|(name, value)| {
            (name == header::TRACEPARENT && header::is_traceparent(value)).then_some(value)
        });
        let received = Received {
            route: self,
            publish,
            receipt,
            // What clients send each other comes unaltered, this property too [MQTT-3.3.2-17].
            traceparent: (
                device.unwrap_or(receipt.traceparent),
                device.is_some() && self.rule.direction == Direction::Up,
            ),
        };
        let (headers, payload) = match self.rule.form {
            Form::Native => (received.native(), publish.payload.clone()),
            Form::Protobuf => (received.protobuf(), envelope::encode(&received)),
        };
        if headers.wire_bytes() > header::BYTES_MAX {
            return Err(Error::HeadersTooLong(headers.wire_bytes()));
        }
        let message = Message {
            subject: self.subject.clone(),
            headers,
            payload,
        };
        let retains = publish.retain && self.rule.is_delivered();
        let expiry_s = publish.properties.message_expiry_interval;
        Ok(Uplink {
            retained: retains.then(|| retained::copy(&message, expiry_s)),
            message,
            live: self.live.clone(),
        })
    }
}

impl Received<'_> {
    fn native(&self) -> Headers {
        let mut headers = self.identified();
        headers.extend(&self.route.headers);
        headers.push(header::QOS, header::qos(self.publish.qos));
        if self.publish.retain {
            headers.push(header::RETAIN, "1");
        }
        self.mqtt5(&self.publish.properties, &mut headers);
        headers
    }

    fn protobuf(&self) -> Headers {
        let mut headers = self.identified();
        headers.push(header::CONTENT_TYPE, envelope::CONTENT_TYPE);
        headers
    }

    /// The headers that every form has.
    fn identified(&self) -> Headers {
        const BYTES: usize = 256;
        let receipt = self.receipt;
        let mut headers = Headers::with_capacity(BYTES + self.route.headers.wire_bytes());
        headers.push_written(header::ID, |line| line.push_str(receipt.id));
        headers.push_written(header::MSG_ID, |line| line.push_str(receipt.id));
        headers.push_written(header::TS, |line| {
            line.push_str(itoa::Buffer::new().format(receipt.received_ms));
        });
        headers.push_written(header::TRACEPARENT, |line| {
            line.push_str(self.traceparent.0)
        });
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
            if self.route.rule.direction == Direction::Both {
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

#[cfg(test)]
#[path = "uplink_tests.rs"]
mod tests;
