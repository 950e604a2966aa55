//! A QoS 2 message between its PUBLISH and its PUBREL: stored already, and delivered to nobody yet.
//!
//! It lies in the stream that it belongs to under a subject of its publisher and packet identifier, which no topic has, with
//! all that it will be. Headers say where it belongs and whose it is: what a session before left there is not released.

use super::Error;
use super::header;
use super::retained;
use super::uplink::Uplink;
use super::{Expiry, SUBJECT_BYTES_MAX};
use crate::message::{Headers, Message, Subject};
use crate::mqtt::PacketId;

const PREFIX: &str = "mqtt_held";
/// The filter of all.
pub(super) const ALL: &str = "mqtt_held.*.*.*";
/// What a held message is not stored with again: what is for holding it alone, its id of then, and what the server says.
const LEFT_OUT: [&str; 6] = [
    header::SUBJECT,
    header::SESSION,
    header::MSG_ID,
    header::STORED_SUBJECT,
    header::SEQUENCE,
    header::STORED_AT,
];

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The device's `P.D`.
    pub tokens: &'a str,
    /// Names its session.
    pub session: &'a str,
}

impl Holder<'_> {
    /// Where the message of a packet identifier is held: `mqtt_held.P.D.<packet identifier>`.
    #[must_use]
    pub fn subject(&self, packet_id: PacketId) -> Subject {
        format!("{PREFIX}.{}.{packet_id}", self.tokens).into()
    }

    /// The filter of all that is held of a device: its `P.D`.
    #[must_use]
    pub fn all(tokens: &str) -> Subject {
        format!("{PREFIX}.{tokens}.*").into()
    }

    /// A message of [`Mapping::uplink`](super::Mapping::uplink) as it is held; it has another message id.
    ///
    /// # Errors
    /// [`Error::SubjectTooLong`] and [`Error::HeadersTooLong`] if JetStream would refuse it.
    pub fn hold(&self, mut message: Message, packet_id: PacketId) -> Result<Message, Error> {
        let mut headers = Headers::with_capacity(512);
        for (name, value) in message.headers.iter() {
            match name {
                header::MSG_ID => headers.push(header::MSG_ID, format!("{value}.held")),
                _ => headers.push(name, value),
            }
        }
        headers.push(header::SUBJECT, message.subject);
        headers.push(header::SESSION, self.session);
        message.headers = headers;
        message.subject = self.subject(packet_id);
        if message.subject.len() > SUBJECT_BYTES_MAX {
            return Err(Error::SubjectTooLong(message.subject.len()));
        }
        match message.headers.wire_bytes() {
            bytes if bytes > header::BYTES_MAX => Err(Error::HeadersTooLong(bytes)),
            _ => Ok(message),
        }
    }

    /// What [`Self::hold`] was given, from what is stored of it, at `now_ms` (Unix milliseconds); none if another session
    /// held it.
    #[must_use]
    pub fn release(&self, held: &Message, now_ms: u64) -> Option<Uplink> {
        let own = held.headers.get(header::SESSION)? == self.session;
        let subject = held.headers.get(header::SUBJECT).filter(|_| own)?;
        let mut headers = Headers::with_capacity(512);
        headers.push(header::MSG_ID, held.headers.get(header::ID)?);
        let kept = held.headers.iter();
        for (name, value) in kept.filter(|(name, _)| !LEFT_OUT.contains(name)) {
            headers.push(name, value);
        }
        let message = Message {
            subject: subject.into(),
            headers,
            payload: held.payload.clone(),
        };
        let retains = message.headers.get(header::RETAIN).is_some();
        let expires = message.headers.get(header::EXPIRES);
        let expiry_s = expires
            .and_then(|unix_ms| unix_ms.parse().ok())
            .map(|unix_ms| {
                // One that expired meanwhile is retained for the shortest time.
                Expiry { unix_ms }.left(now_ms).unwrap_or(1)
            });
        Some(Uplink {
            retained: retains.then(|| retained::copy(&message, expiry_s)),
            message,
            live: None,
        })
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
