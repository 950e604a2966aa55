//! The headers of a message (SUBJECTS §4): their names, and what makes a device's text safe for NATS framing.
//!
//! A device's names stand behind `Jw-User-`, so none is ours or JetStream's. What NATS or a header parser could take for
//! something else is percent-encoded, and so is `%`: the text is read back exactly.

use std::borrow::Cow;

use bytes::BytesMut;
use bytestring::ByteString;

use super::percent;
use crate::mqtt::QoS;

pub(super) const ID: &str = "Jw-Id";
pub(super) const TYPE: &str = "Jw-Type";
pub(super) const TS: &str = "Jw-Ts";
pub(super) const QOS: &str = "Jw-Qos";
pub(super) const RETAIN: &str = "Jw-Retain";
pub(super) const TOPIC: &str = "Jw-Topic";
pub(super) const EXPIRES: &str = "Jw-Expires";
pub(super) const PAYLOAD_FORMAT: &str = "Jw-Payload-Format";
pub(super) const RESPONSE_TOPIC: &str = "Jw-Response-Topic";
pub(super) const CORRELATION: &str = "Jw-Correlation";
/// Where the device's acknowledgement is reported.
pub(super) const RECEIPT: &str = "Jw-Receipt";
/// The client that published it.
pub(super) const CLIENT: &str = "Jw-Client";
/// The sub-devices that a gateway device speaks for.
pub(super) const SUB_DEVICES: &str = "Jw-Sub-Devices";
/// The subject that a held message belongs under, or that a dead one was stored under.
pub(super) const SUBJECT: &str = "Jw-Subject";
/// The session that a held message is of.
pub(super) const SESSION: &str = "Jw-Session";
/// The sequence of the message that this one was made of.
pub(super) const KEPT_SEQUENCE: &str = "Jw-Sequence";
/// The stream of that message, and when it was created.
pub(super) const STREAM: &str = "Jw-Stream";
pub(super) const STREAM_CREATED: &str = "Jw-Stream-Created";
/// The names of the user properties in the client's order, where there are several: header libraries keep none.
pub(super) const ORDER: &str = "Jw-Order";
pub(super) const USER: &str = "Jw-User-";
pub(super) const CONTENT_TYPE: &str = "Content-Type";
pub(super) const TRACEPARENT: &str = "traceparent";
pub(super) const MSG_ID: &str = "Nats-Msg-Id";
pub(super) const TTL: &str = "Nats-TTL";
pub(super) const STORED_SUBJECT: &str = "Nats-Subject";
pub(super) const STORED_AT: &str = "Nats-Time-Stamp";
pub(super) const SEQUENCE: &str = "Nats-Sequence";
pub(super) const LAST_SEQUENCE: &str = "Nats-Last-Sequence";

/// Headers of these names are the server's, or tell it what to do with the message that has them.
const SERVERS: &str = "Nats-";

/// How media types of ours start. A device's content type that starts so, in any case, is written with its first
/// letter percent-encoded: nobody takes its payload for a message of the gateway.
const OWN_MEDIA_TYPES: &str = "application/vnd.jetway.";

/// What all headers of a message may take, in bytes. JetStream stores at most 65,535; the rest is left for the headers
/// that publishing adds.
pub(super) const BYTES_MAX: usize = 64_512;

/// A text as a header's value.
pub(super) fn value(text: &ByteString) -> ByteString {
    // A parser of headers may strip spaces from both ends.
    let plain = !text.bytes().any(is_encoded) && text.trim_matches(' ').len() == text.len();
    if plain {
        return text.clone();
    }
    let mut out = BytesMut::with_capacity(text.len() + 16);
    let inner = text.trim_start_matches(' ');
    let left = text.len() - inner.len();
    let inner = inner.trim_end_matches(' ');
    let right = text.len() - left - inner.len();
    out.extend_from_slice("%20".repeat(left).as_bytes());
    percent::encode(inner, is_encoded, &mut out);
    out.extend_from_slice("%20".repeat(right).as_bytes());
    percent::take(&mut out)
}

/// A device's content type as a header's value.
pub(super) fn content_type(text: &ByteString) -> ByteString {
    let start = text.get(..OWN_MEDIA_TYPES.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(OWN_MEDIA_TYPES)) {
        let (first, rest) = text.split_at(1);
        let first = if &*first == "a" { "%61" } else { "%41" };
        return format!("{first}{}", value(&rest)).into();
    }
    value(text)
}

/// The text that [`value`] turned into this, or that a service wrote.
pub(super) fn text(value: &str) -> Cow<'_, str> {
    percent::decode_lenient(value)
}

/// `Jw-User-<name>`
pub(super) fn user_name(name: &str) -> String {
    let mut out = BytesMut::with_capacity(USER.len() + name.len());
    out.extend_from_slice(USER.as_bytes());
    let visible = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'%');
    percent::encode(name, |byte| !visible(byte), &mut out);
    percent::take(&mut out).to_string()
}

/// Stands between names in [`ORDER`]: [`user_name`] never writes it.
pub(super) const BETWEEN_NAMES: &str = ":";

/// Whether a byte cannot be in a value, or is the escape itself.
fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_control() || byte == b'%'
}

/// Whether a header is the server's, or tells it what to do with the message.
pub(super) fn is_servers(name: &str) -> bool {
    let start = name.get(..SERVERS.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(SERVERS))
}

/// Whether a text is a W3C trace context that can be continued: version, trace id, parent id and flags.
pub(super) fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, length| {
        part.len() == length
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
    };
    let mut parts = text.split('-');
    let mut next = |length| parts.next().filter(|part| hex(part, length));
    let (Some(version), Some(trace), Some(parent), Some(_)) =
        (next(2), next(32), next(16), next(2))
    else {
        return false;
    };
    let some = |id: &str| id.bytes().any(|byte| byte != b'0');
    // A later version may have more parts, which this one cannot vouch for.
    version == "00" && some(trace) && some(parent) && parts.next().is_none()
}

/// The value of [`QOS`].
pub(super) fn qos(qos: QoS) -> &'static str {
    match qos {
        QoS::AtMostOnce => "0",
        QoS::AtLeastOnce => "1",
        QoS::ExactlyOnce => "2",
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
