//! Retained messages: the last one of each topic, in a bucket whose keys are the subjects that topics have; where several
//! topics share a subject, the topic stands behind it, as one token.
//!
//! What is kept is the message as it is stored, under another subject; so what reads the one reads the other. One without
//! payload stands for the removal. When it is written, and in what order with the message itself, is not decided here.

use bytes::{BufMut, BytesMut};

use super::Error;
use super::downlink::Downlink;
use super::envelope;
use super::header;
use super::percent::take;
use super::rules::Mapping;
use super::subject::{SUBJECT_BYTES_MAX, encode_token};
use crate::message::{Headers, Message, Subject};

/// What the bucket's subjects start with.
const BUCKET: &str = "$KV.jetway_retained.";
/// The longest key, in bytes: a subject, and as much again for the topic.
const KEY_BYTES_MAX: usize = 2 * SUBJECT_BYTES_MAX;
/// When the message of a service was stored, of which this is the copy, Unix milliseconds; its sequence is `Jw-Sequence`.
const STORED_MS: &str = "Jw-Stored-Ms";
/// What a copy does not have of a service's message, beside the server's: its receipt, what is for buckets, and our own.
const LEFT_OUT: [&str; 5] = [
    header::RECEIPT,
    header::EXPIRES,
    header::KEPT_SEQUENCE,
    STORED_MS,
    "KV-Operation",
];
/// Why the server wrote a message itself, such as at the end of a lifetime.
const MARKER_REASON: &str = "Nats-Marker-Reason";

/// What this stored message, of a PUBLISH with RETAIN set, makes of the retained message of its topic, which is its
/// subject's alone: it takes its place, or removes it if it has no payload [MQTT-3.3.1-5], [MQTT-3.3.1-6].
pub(super) fn copy(message: &Message, expiry_s: Option<u32>) -> Message {
    let mut copy = message.clone();
    copy.subject = format!("{BUCKET}{}", message.subject).into();
    // The last one written counts, also if it was written before: what came between is older for its sender.
    copy.headers.remove(header::MSG_ID);
    if let Some(seconds) = expiry_s.filter(|seconds| *seconds > 0 && !copy.payload.is_empty()) {
        copy.headers.push(header::TTL, seconds.to_string());
    }
    copy
}

impl Mapping {
    /// What a message of [`Mapping::delivery`] that a service published with `Jw-Retain: 1` makes of the retained message of
    /// its topic, at `now_ms`; `stored_ms` says when it was stored (Unix milliseconds). Like the copy of an uplink it has no
    /// payload if it removes it, as one does whose lifetime is over. None if it is not to be retained, or a client's.
    ///
    /// # Errors
    /// As [`Mapping::downlink`]; [`Error::SubjectTooLong`] if the key has more than 2,048 bytes.
    pub fn retained_copy(
        &self,
        message: &Message,
        stored_ms: u64,
        now_ms: u64,
    ) -> Result<Option<Message>, Error> {
        let headers = &message.headers;
        let may_retain = headers.get(header::RETAIN) == Some("1")
            || headers.get(header::CONTENT_TYPE) == Some(envelope::CONTENT_TYPE);
        // Gateways write the copy of what clients publish before the message itself.
        if !may_retain || headers.get(header::CLIENT).is_some() {
            return Ok(None);
        }
        let downlink = self.downlink(message)?;
        if !downlink.retain {
            return Ok(None);
        }
        let subject = self.retained_key(&message.subject, &downlink.topic);
        if subject.len() > BUCKET.len() + KEY_BYTES_MAX {
            return Err(Error::SubjectTooLong(subject.len()));
        }
        let mut kept = Headers::with_capacity(512);
        for (name, value) in headers.iter() {
            if !header::is_servers(name) && !LEFT_OUT.contains(&name) {
                kept.push(name, value);
            }
        }
        kept.push(header::KEPT_SEQUENCE, downlink.stream_sequence.to_string());
        kept.push(STORED_MS, stored_ms.to_string());
        let mut payload = message.payload.clone();
        match downlink.expires.map(|end| (end, end.left(now_ms))) {
            _ if downlink.payload.is_empty() => payload.clear(),
            Some((_, None)) => payload.clear(),
            Some((end, Some(seconds))) => {
                kept.push(header::EXPIRES, end.unix_ms.to_string());
                kept.push(header::TTL, seconds.to_string());
            }
            None => {}
        }
        Ok(Some(Message {
            subject,
            headers: kept,
            payload,
        }))
    }

    /// Whether such a copy replaces what was written to its key last, at `last_ms` (Unix milliseconds).
    ///
    /// Not if that is the copy of the same message or of one behind it, whichever node wrote it, or of a client's message
    /// that was sent behind it. In a delivery stream that began anew sequences are lower, and times are not.
    #[must_use]
    pub fn replaces_retained(copy: &Message, last: &Message, last_ms: u64) -> bool {
        let number = |message: &Message, name| message.headers.get(name)?.parse::<u64>().ok();
        let own_ms = number(copy, STORED_MS);
        let sequence = number(last, header::KEPT_SEQUENCE);
        match (sequence, last.headers.get(MARKER_REASON)) {
            (Some(_), _) => {
                number(copy, header::KEPT_SEQUENCE) > sequence || own_ms > number(last, STORED_MS)
            }
            (None, Some(_)) => true,
            (None, None) => own_ms >= Some(last_ms),
        }
    }

    /// The key, with the bucket, of the topics that a name or filter means among those of a stored subject.
    fn retained_key(&self, subject: &str, topic: &str) -> Subject {
        let mut key = BytesMut::from(BUCKET);
        key.put_slice(subject.as_bytes());
        if self.has_one_receiver() {
            key.put_u8(b'.');
            match topic.contains('+') {
                true => key.put_u8(b'*'),
                false => encode_token(topic, &mut key),
            }
        }
        take(&mut key)
    }

    /// From the subject of a key the stored subject; none if it is no key of the bucket.
    pub(super) fn retained_subject<'k>(&self, key: &'k str) -> Option<&'k str> {
        let key = key.strip_prefix(BUCKET)?;
        match self.has_one_receiver() {
            true => key.rsplit_once('.').map(|(subject, _topic)| subject),
            false => Some(key),
        }
    }

    /// The filters of the keys whose retained messages a topic filter may match; none as with [`Mapping::subscription`].
    #[must_use]
    pub fn retained_filters(&self, filter: &str) -> Option<Vec<Subject>> {
        let subjects = self.subscription(filter)?;
        let keys = subjects
            .iter()
            .map(|subject| self.retained_key(subject, filter));
        Some(keys.collect())
    }

    /// A message of the bucket as what a new subscriber gets, RETAIN set [MQTT-3.3.1-8]; none if it stands for the
    /// removal of one.
    ///
    /// # Errors
    /// As [`Mapping::downlink`].
    pub fn retained(&self, message: &Message) -> Result<Option<Downlink>, Error> {
        // Markers of a removal have no payload, and neither has any message that could be retained.
        if message.payload.is_empty() {
            return Ok(None);
        }
        let retained = Downlink {
            retain: true,
            ..self.downlink(message)?
        };
        Ok(Some(retained))
    }
}

#[cfg(test)]
#[path = "retained_tests.rs"]
mod tests;
