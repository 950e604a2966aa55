//! Retained messages: the last one of each topic, in a bucket whose keys are the subjects that topics have.
//!
//! What is kept is the message as it is stored, under another subject; so what reads the one reads the other. When it is
//! written, and in what order with the message itself, is not decided here.

use super::Error;
use super::downlink::Downlink;
use super::header;
use super::rules::Mapping;
use crate::message::{Message, Subject};

/// What the bucket's subjects start with.
const BUCKET: &str = "$KV.jetway_retained.";

/// What a PUBLISH with RETAIN set does to the retained message of its topic [MQTT-3.3.1-5].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retained {
    /// Takes its place; the message's subject is that of the key.
    Set(Message),
    /// Removes it; the subject of the key [MQTT-3.3.1-6].
    Clear(Subject),
}

impl Retained {
    /// What this stored message, of a PUBLISH with RETAIN set, does.
    pub(super) fn of(message: &Message, expiry_s: Option<u32>) -> Self {
        let subject = Mapping::retained_key(&message.subject);
        if message.payload.is_empty() {
            return Self::Clear(subject);
        }
        let mut message = message.clone();
        message.subject = subject;
        // The last one written counts, also if it was written before: what came between is older for its sender.
        message.headers.remove(header::MSG_ID);
        if let Some(seconds) = expiry_s.filter(|seconds| *seconds > 0) {
            message.headers.push(header::TTL, seconds.to_string());
        }
        Self::Set(message)
    }
}

impl Mapping {
    /// The subject of the key that holds the retained message of a stored subject: `$KV.jetway_retained.<subject>`.
    #[must_use]
    pub fn retained_key(subject: &str) -> Subject {
        format!("{BUCKET}{subject}").into()
    }

    /// From `$KV.jetway_retained.<subject>` the subject; none if it is no key of that bucket.
    #[must_use]
    pub fn retained_subject(key: &str) -> Option<&str> {
        key.strip_prefix(BUCKET)
    }

    /// The filters of the keys whose retained messages a topic filter may match; none as with [`Mapping::subscription`].
    #[must_use]
    pub fn retained_filters(&self, filter: &str) -> Option<Vec<Subject>> {
        let filters = self.subscription(filter)?;
        Some(filters.iter().map(|f| Self::retained_key(f)).collect())
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
