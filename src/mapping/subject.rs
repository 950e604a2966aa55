//! The only code that builds or reads our subjects, and the tokens in them (SUBJECTS §1, §3).
//!
//! What a rule's template says is in `template`; here is what every rule shares and what has no rule.
//! Encoding is injective and reversible: equal tokens come from equal names, and only canonical text is read back.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use bytestring::ByteString;

use super::percent;
use crate::device::DeviceId;
use crate::message::Subject;

/// The longest subject that is sent, in bytes. A NATS server reads protocol lines of at most 4,096 bytes, and a
/// publish line also carries a reply subject and sizes.
pub const SUBJECT_BYTES_MAX: usize = 1024;

/// Whether a NATS token may not hold this byte as it is, or it is the escape itself.
fn is_encoded(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'.' | b'*' | b'>' | b'%' | 0x7F)
}

/// Appends a name as one token.
pub(super) fn encode_token(name: &str, out: &mut BytesMut) {
    percent::encode(name, is_encoded, out);
}

/// The name that [`encode_token`] turned into this token; none if it never writes such a token.
pub(super) fn decode_token(token: &str) -> Option<Cow<'_, str>> {
    percent::decode_strict(token, is_encoded).filter(|name| !name.is_empty())
}

/// A product id as one token.
#[must_use]
pub fn product_token(product: &str) -> ByteString {
    let mut token = BytesMut::with_capacity(product.len());
    encode_token(product, &mut token);
    percent::take(&mut token)
}

/// `P.D`, encoded: what a device is in every subject.
pub(super) fn device_tokens(id: &DeviceId) -> ByteString {
    let mut tokens = BytesMut::with_capacity(id.product().len() + id.name().len() + 1);
    encode_token(id.product(), &mut tokens);
    tokens.put_u8(b'.');
    encode_token(id.name(), &mut tokens);
    percent::take(&mut tokens)
}

/// Whether a device is there; each has its subjects (SUBJECTS §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It connected.
    Connected,
    /// Its connection ended.
    Disconnected,
}

impl Presence {
    /// Its token in both subjects.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
        }
    }

    /// `device.up.status.<presence>`, stored in `DEVICE_STATUS`.
    #[must_use]
    pub fn device_subject(self) -> Subject {
        format!("device.up.status.{}", self.as_str()).into()
    }

    /// `application.device.<productID>.<deviceName>.status.<presence>`, stored in `APPLICATION`.
    #[must_use]
    pub fn application_subject(self, id: &DeviceId) -> Subject {
        let device = device_tokens(id);
        format!("application.device.{device}.status.{}", self.as_str()).into()
    }
}

/// `device.down.<handle>.<productID>.<deviceName>`: a downlink from a sender that does not know the protocol.
#[must_use]
pub fn downlink_subject(handle: &str, id: &DeviceId) -> Subject {
    format!("device.down.{handle}.{}", device_tokens(id)).into()
}

/// `application.cursor.<shard>`: how far the events of a shard are. In the stream of the events, so that both are stored at once.
#[must_use]
pub fn events_cursor(shard: u32) -> Subject {
    format!("application.cursor.{shard}").into()
}

/// What is published again for one durable: in no stream but that durable's.
pub(super) const REPLAYS: &str = "replay.>";

/// `replay.<durable>.>`: what is published again for this durable alone.
pub(super) fn replay_filter(durable: &str) -> String {
    format!("replay.{durable}.>")
}

/// `replay.<durable>.<original subject>`
pub(super) fn replay_subject(durable: &str, original: &str) -> Subject {
    format!("replay.{durable}.{original}").into()
}

/// The original subject in one that [`replay_subject`] made for this durable; the subject itself if it is no such one.
pub(super) fn replayed<'s>(durable: &str, subject: &'s str) -> &'s str {
    let rest = subject.strip_prefix("replay.");
    rest.and_then(|rest| rest.strip_prefix(durable)?.strip_prefix('.'))
        .unwrap_or(subject)
}

/// `device.down.<protocol>.status.fix`: asks for a device's true status. No downlink, stored nowhere.
pub(super) fn status_fix(protocol: &str) -> Subject {
    format!("device.down.{protocol}.status.fix").into()
}

/// Whether a text is a subject filter: non-empty tokens, `*` and `>` alone in theirs, `>` last.
pub(super) fn is_filter(text: &str) -> bool {
    let count = text.split('.').count();
    text.split('.').enumerate().all(|(at, token)| match token {
        ">" => at + 1 == count,
        "*" => true,
        _ => {
            !token.is_empty()
                && !token
                    .bytes()
                    .any(|b| b <= b' ' || matches!(b, b'*' | b'>' | 0x7F))
        }
    })
}

/// Whether some subject matches both filters.
pub(super) fn intersect(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(x), Some(y)) if x == y || x == "*" || y == "*" => {}
            _ => return false,
        }
    }
}

/// Whether the gateway may publish there since a service asks it to. Not where devices, gateways or JetStream get their messages:
/// services that may not publish there themselves would do it through the gateway.
#[must_use]
pub fn is_for_services(subject: &str) -> bool {
    const OWN: [&str; 9] = [
        "_jw",
        "application",
        "device",
        "dlq",
        "gps",
        "jetway",
        "mqtt",
        "mqtt_held",
        "replay",
    ];
    let first = subject.split('.').next().unwrap_or_default();
    !first.starts_with('$') && !OWN.contains(&first)
}

#[cfg(test)]
#[path = "subject_tests.rs"]
mod tests;
