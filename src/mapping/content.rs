//! What the sender of a downlink says, read from headers or from `jetway.v1.DeviceMessage`.
//!
//! Text goes to a device's MQTT library, so whatever MQTT forbids in a string, a topic or a payload format is refused.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use bytestring::ByteString;
use prost::Message as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Error;
use super::downlink::Expiry;
use super::envelope::{CONTENT_TYPE, DeviceMessage};
use super::header;
use super::known::Known;
use super::rule::Rule;
use crate::device::DeviceId;
use crate::message::Message;
use crate::mqtt::{PublishProperties, QoS};

/// The longest string of MQTT, in bytes.
pub(super) const MQTT_STRING_MAX: usize = 65_535;

/// How long before JetStream drops a message it is not delivered any more.
const REPORTING_MS: u64 = 1_000;

/// What the sender says, in either form.
pub(super) struct Content {
    pub(super) topic: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) payload: Bytes,
    pub(super) properties: PublishProperties,
    pub(super) expires: Option<Expiry>,
    pub(super) id: Option<String>,
}

impl Content {
    /// Reads the form that the message says it has.
    ///
    /// # Errors
    /// What in it is wrong.
    pub(super) fn read(
        message: &Message,
        known: &Known<'_>,
        rule: &Rule,
        id: &DeviceId,
    ) -> Result<Self, Error> {
        match known.content_type {
            Some(CONTENT_TYPE) => protobuf(message, known, rule, id),
            _ => Self::native(message, known),
        }
    }

    /// Reads the form that has everything but the payload in headers.
    ///
    /// # Errors
    /// What in it is wrong.
    pub(super) fn native(message: &Message, known: &Known<'_>) -> Result<Self, Error> {
        native(message, known)
    }
}

fn native(message: &Message, known: &Known<'_>) -> Result<Content, Error> {
    let correlation = known.correlation.map(|text| {
        let decoded = BASE64.decode(text).ok();
        decoded.ok_or_else(|| wrong("header Jw-Correlation", text, "base64"))
    });
    // What another client published: its trace context is among its user properties, and nothing is checked again.
    let from_client = known.client.is_some();
    let trace = known.traceparent.filter(|_| !from_client);
    let trace = trace.map(|value| (header::TRACEPARENT, value));
    let user = in_order(&known.user, known.order);
    let user = trace.into_iter().chain(user).map(|(name, value)| {
        let string = |text| mqtt_string("header Jw-User-", header::text(text));
        Ok((string(name)?, string(value)?))
    });
    let properties = PublishProperties {
        payload_format_indicator: known
            .payload_format
            .map(|text| match from_client {
                true => switch("header Jw-Payload-Format", text).map(u8::from),
                false => payload_format("header Jw-Payload-Format", text, &message.payload),
            })
            .transpose()?,
        content_type: known
            .content_type
            .map(|text| mqtt_string("header Content-Type", header::text(text)))
            .transpose()?,
        response_topic: known
            .response_topic
            .map(|text| topic_name("header Jw-Response-Topic", header::text(text)))
            .transpose()?,
        correlation_data: correlation.transpose()?.map(Bytes::from),
        user: user.collect::<Result<Vec<_>, _>>()?.into_iter().collect(),
        ..PublishProperties::default()
    };
    let expires = known.expires.map(|text| {
        let unix_ms = number("header Jw-Expires", text)?;
        Ok(Expiry { unix_ms })
    });
    Ok(Content {
        topic: known.topic.map(owned),
        kind: known.kind.map(owned),
        qos: qos("header Jw-Qos", known.qos.unwrap_or("1"))?,
        retain: switch("header Jw-Retain", known.retain.unwrap_or("0"))?,
        payload: message.payload.clone(),
        properties,
        expires: match expires {
            Some(expires) => Some(expires?),
            None => time_to_live(known)?,
        },
        id: known.id.or(known.msg_id).map(str::to_owned),
    })
}

/// Headers in the order of names that was written beside them; those that it does not name come last.
fn in_order<'m>(user: &[(&'m str, &'m str)], order: Option<&str>) -> Vec<(&'m str, &'m str)> {
    let Some(order) = order else {
        return user.to_vec();
    };
    let mut left: HashMap<&str, VecDeque<_>> = HashMap::new();
    for pair in user {
        left.entry(pair.0).or_default().push_back(*pair);
    }
    let names = order.split(header::BETWEEN_NAMES);
    let mut ordered: Vec<_> = names
        .filter_map(|name| left.get_mut(name)?.pop_front())
        .collect();
    ordered.extend(left.into_values().flatten());
    ordered
}

fn protobuf(
    message: &Message,
    known: &Known<'_>,
    rule: &Rule,
    id: &DeviceId,
) -> Result<Content, Error> {
    let message = DeviceMessage::decode(message.payload.clone())
        .map_err(|error| Error::Protobuf(error.to_string()))?;
    for (place, found, expected) in [
        ("field handle", &message.handle, &*rule.handle.value),
        ("field product_id", &message.product_id, id.product()),
        ("field device_name", &message.device_name, id.name()),
    ] {
        if !found.is_empty() && found != expected {
            return Err(wrong(
                place,
                found,
                format!("{expected:?}, as in the subject"),
            ));
        }
    }
    let trace = Some(message.traceparent).filter(|text| !text.is_empty());
    let trace = trace.map(|value| (header::TRACEPARENT.to_owned(), value));
    let user = message
        .user_properties
        .into_iter()
        .map(|user| (user.name, user.value));
    let user = trace.into_iter().chain(user).map(|(name, value)| {
        let string = |text: String| mqtt_string("field user_properties", text.into());
        Ok((string(name)?, string(value)?))
    });
    let properties = PublishProperties {
        payload_format_indicator: message
            .payload_format
            .map(|format| {
                payload_format(
                    "field payload_format",
                    &format.to_string(),
                    &message.payload,
                )
            })
            .transpose()?,
        content_type: message
            .content_type
            .map(|text| mqtt_string("field content_type", text.into()))
            .transpose()?,
        response_topic: message
            .response_topic
            .map(|text| topic_name("field response_topic", text.into()))
            .transpose()?,
        correlation_data: message.correlation_data,
        user: user.collect::<Result<Vec<_>, _>>()?.into_iter().collect(),
        ..PublishProperties::default()
    };
    let said = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(Content {
        topic: said(message.topic),
        kind: said(message.r#type),
        qos: message.qos.map_or(Ok(QoS::AtLeastOnce), |number| {
            qos("field qos", &number.to_string())
        })?,
        retain: message.retain,
        payload: message.payload,
        properties,
        expires: match message.expires_at_ms {
            Some(ms) => Some(Expiry {
                unix_ms: number("field expires_at_ms", &ms.to_string())?,
            }),
            None => time_to_live(known)?,
        },
        id: said(message.id).or_else(|| known.msg_id.map(str::to_owned)),
    })
}

fn owned(value: &str) -> String {
    header::text(value).into_owned()
}

/// The lifetime that the sender gave the stored message, counted from when it was stored. It ends a little before JetStream
/// drops the message: until then it can still be read and reported.
fn time_to_live(known: &Known<'_>) -> Result<Option<Expiry>, Error> {
    let Some(text) = known.ttl.filter(|text| *text != "never") else {
        return Ok(None);
    };
    let seconds = seconds(text).ok_or_else(|| {
        wrong(
            "header Nats-TTL",
            text,
            "seconds, or hours, minutes and seconds such as 1h30m",
        )
    })?;
    let time_to_live_ms = seconds.saturating_mul(1000);
    let left_ms = time_to_live_ms - REPORTING_MS.min(time_to_live_ms / 2);
    let stored = known.stored_at.unwrap_or_default();
    let stored_ms = OffsetDateTime::parse(stored, &Rfc3339).ok().and_then(|at| {
        let ms = at.unix_timestamp_nanos() / 1_000_000;
        u64::try_from(ms).ok()
    });
    let stored_ms =
        stored_ms.ok_or_else(|| wrong("header Nats-Time-Stamp", stored, "an RFC 3339 time"))?;
    Ok(Some(Expiry {
        unix_ms: stored_ms.saturating_add(left_ms),
    }))
}

/// `90`, `90s`, `1h30m`
fn seconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let mut total = 0_u64;
    let parts = text.split_inclusive(['h', 'm', 's']);
    for part in parts {
        let (number, unit) = part.split_at_checked(part.len().checked_sub(1)?)?;
        let factor = match unit {
            "h" => 3600,
            "m" => 60,
            "s" => 1,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
    }
    (total > 0).then_some(total)
}

fn qos(place: &'static str, text: &str) -> Result<QoS, Error> {
    match text {
        "0" => Ok(QoS::AtMostOnce),
        "1" => Ok(QoS::AtLeastOnce),
        "2" => Ok(QoS::ExactlyOnce),
        _ => Err(wrong(place, text, "0, 1 or 2")),
    }
}

fn switch(place: &'static str, text: &str) -> Result<bool, Error> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(wrong(place, text, "0 or 1")),
    }
}

/// A device may close the connection over a payload that is not what it says.
fn payload_format(place: &'static str, text: &str, payload: &[u8]) -> Result<u8, Error> {
    match (switch(place, text)?, std::str::from_utf8(payload)) {
        (false, _) => Ok(0),
        (true, Ok(_)) => Ok(1),
        (true, Err(_)) => Err(wrong(place, text, "1 only with a payload of UTF-8")),
    }
}

pub(super) fn number(place: &'static str, text: &str) -> Result<u64, Error> {
    let number = text.parse().ok();
    number.ok_or_else(|| wrong(place, text, "an integer, at least 0"))
}

fn topic_name(place: &'static str, text: Cow<'_, str>) -> Result<ByteString, Error> {
    if text.is_empty() || text.contains(['+', '#']) {
        return Err(wrong(place, &text, "a topic name"));
    }
    mqtt_string(place, text)
}

fn mqtt_string(place: &'static str, text: Cow<'_, str>) -> Result<ByteString, Error> {
    if text.contains('\0') || text.len() > MQTT_STRING_MAX {
        return Err(wrong(place, &text, "at most 65535 bytes without U+0000"));
    }
    Ok(text.into_owned().into())
}

pub(super) fn wrong(place: &'static str, found: &str, expected: impl Into<String>) -> Error {
    Error::Value {
        place,
        found: found.chars().take(80).collect(),
        expected: expected.into(),
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
