//! Dead letters of durable consumers: what a message becomes that a service gave up, or never acknowledged.
//!
//! Nothing of the original is lost: a header of its own that a dead letter needs for itself is kept under
//! `Jw-Original-<name>`. What the server alone writes (`Nats-…`) is left out.

use super::header;
use super::rules::Mapping;
use super::subject::replayed;
use crate::message::{Headers, Message};

pub(super) const REASON: &str = "Jw-Reason";
/// The service's own words, where it terminated the message with some.
pub(super) const DETAIL: &str = "Jw-Detail";
pub(super) const STREAM: &str = "Jw-Stream";
pub(super) const DURABLE: &str = "Jw-Durable";
pub(super) const ATTEMPTS: &str = "Jw-Attempts";
/// When the message was stored at first, Unix milliseconds.
pub(super) const FIRST_TS: &str = "Jw-First-Ts";
/// How often it was replayed.
pub(super) const REPLAY: &str = "Jw-Replay";
/// Why the original bytes are not in it: `gone` or `too_large`.
pub(super) const OMITTED: &str = "Jw-Omitted";

/// Before the name of a header of the original that has the name of one of these.
pub(super) const ORIGINAL: &str = "Jw-Original-";

/// What a dead letter of a durable says about itself.
pub(super) const OWN: [&str; 10] = [
    REASON,
    DETAIL,
    STREAM,
    DURABLE,
    header::KEPT_SEQUENCE,
    ATTEMPTS,
    FIRST_TS,
    header::TS,
    header::SUBJECT,
    OMITTED,
];

/// The longest words of a service that are kept, in bytes.
const DETAIL_BYTES_MAX: usize = 1_024;

/// A message that fell out of a durable.
#[derive(Debug, Clone, Copy)]
pub struct Fallen<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The durable.
    pub durable: &'a str,
    /// The message's place in the stream.
    pub sequence: u64,
    /// Why: `max_deliveries` or `terminated`.
    pub reason: &'static str,
    /// The words of the service that terminated it.
    pub detail: Option<&'a str>,
    /// How often it was delivered.
    pub attempts: u64,
    /// When it fell out, Unix milliseconds.
    pub at_ms: u64,
}

/// The message as it lies in the stream.
#[derive(Debug, Clone, Copy)]
pub struct Original<'a> {
    /// It.
    pub message: &'a Message,
    /// When it was stored, Unix milliseconds.
    pub stored_ms: u64,
}

impl Mapping {
    /// `dlq.durable.<stream>.<durable>.<sequence>`: one subject for each message that a durable can give up, so that the server
    /// itself refuses a second dead letter of it.
    #[must_use]
    pub fn fallen_subject(fallen: &Fallen<'_>) -> String {
        let Fallen {
            stream,
            durable,
            sequence,
            ..
        } = fallen;
        format!("dlq.durable.{stream}.{durable}.{sequence}")
    }

    /// Whether a dead letter is of this very message, and not of one with its sequence in a stream that was replaced.
    #[must_use]
    pub fn is_of(dead: &Message, original: Option<&Original<'_>>) -> bool {
        let first = original.map(|original| original.stored_ms.to_string());
        dead.headers.get(FIRST_TS) == first.as_deref()
    }

    /// The dead letter of a message; without its bytes if it is gone, or if it would have more than `bytes_max` on the wire.
    #[must_use]
    pub fn dead_delivery(
        fallen: &Fallen<'_>,
        original: Option<&Original<'_>>,
        bytes_max: usize,
    ) -> Message {
        let whole = Self::fallen_letter(fallen, original, None);
        let fits = |letter: &Message| {
            letter.wire_bytes() <= bytes_max && letter.headers.wire_bytes() <= header::BYTES_MAX
        };
        match original {
            None => Self::fallen_letter(fallen, None, Some("gone")),
            Some(_) if fits(&whole) => whole,
            Some(_) => Self::fallen_letter(fallen, original, Some("too_large")),
        }
    }

    fn fallen_letter(
        fallen: &Fallen<'_>,
        original: Option<&Original<'_>>,
        omitted: Option<&'static str>,
    ) -> Message {
        let (stream, durable, sequence) = (fallen.stream, fallen.durable, fallen.sequence);
        let first = original.map_or(0, |original| original.stored_ms);
        let mut headers = Headers::with_capacity(512);
        headers.push(REASON, fallen.reason);
        if let Some(detail) = fallen.detail {
            let end = detail.floor_char_boundary(DETAIL_BYTES_MAX);
            let detail = detail.get(..end).unwrap_or_default();
            headers.push(DETAIL, header::value(&detail.into()));
        }
        headers.push(STREAM, stream);
        headers.push(DURABLE, durable);
        headers.push(header::KEPT_SEQUENCE, sequence.to_string());
        headers.push(ATTEMPTS, fallen.attempts.to_string());
        headers.push(header::TS, fallen.at_ms.to_string());
        let id = format!("dead.{stream}.{durable}.{sequence}.{first}");
        headers.push(header::MSG_ID, id);
        if let Some(omitted) = omitted {
            headers.push(OMITTED, omitted);
        }
        let mut payload = bytes::Bytes::new();
        if let Some(Original { message, stored_ms }) = original {
            headers.push(FIRST_TS, stored_ms.to_string());
            let subject = replayed(durable, &message.subject);
            headers.push(header::SUBJECT, subject);
            if omitted.is_none() {
                payload = message.payload.clone();
                add_original(message, &mut headers, subject.len() < message.subject.len());
            } else if let Some(trace) = message.headers.get(header::TRACEPARENT) {
                headers.push(header::TRACEPARENT, trace);
            }
        }
        Message {
            subject: Self::fallen_subject(fallen).into(),
            headers,
            payload,
        }
    }
}

/// The original's headers behind those of the dead letter.
fn add_original(message: &Message, headers: &mut Headers, is_replay: bool) {
    for (name, value) in message.headers.iter() {
        // A replay's says what is said here already.
        if header::is_servers(name) || (is_replay && name == header::SUBJECT) {
            continue;
        }
        let own = OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
        match own || name.starts_with(ORIGINAL) {
            true => headers.push(format!("{ORIGINAL}{name}"), value),
            false => headers.push(name, value),
        }
    }
}

#[cfg(test)]
#[path = "fallen_tests.rs"]
mod tests;
