//! An event in the hands of its handler: what was received, where it came from, and the trace that it goes on with.

use serde::de::DeserializeOwned;

use super::Failure;
use super::trace::Trace;
use crate::event::Received;
use crate::jetstream::consumer::Delivered;
use crate::message::{Headers, Subject};

/// What is before the original subject of a dead letter that is replayed to one durable, without the durable's name.
const REPLAY: &str = "replay.";

/// One event.
#[derive(Debug)]
pub struct Event {
    /// The envelope: id, name, version, time, producer, data.
    pub received: Received,
    /// The subject on which it was published first, also when it is replayed.
    pub subject: Subject,
    /// The headers of its message.
    pub headers: Headers,
    /// Its sequence in the stream; a replayed event has a new one.
    pub sequence: u64,
    /// How often this message was delivered, this time included; from 1.
    pub attempt: u64,
    /// To be the header `traceparent` of what the handler publishes: its trace, with this handling as the parent.
    pub traceparent: String,
}

impl Event {
    /// The event's data as a type of the service.
    ///
    /// # Errors
    /// [`Failure::Poison`] with the place that does not fit: what cannot be read today cannot be read tomorrow.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.received.data.get())
            .map_err(|error| Failure::Poison(format!("data: {error}")))
    }

    pub(super) fn new(
        received: Received,
        delivered: &Delivered,
        subject: Subject,
        trace: &Trace,
    ) -> Self {
        Self {
            received,
            subject,
            headers: delivered.message.headers.clone(),
            sequence: delivered.sequence,
            attempt: delivered.attempt,
            traceparent: trace.to_string(),
        }
    }
}

/// The subject on which a message of `durable` was published first.
pub(super) fn original_subject(subject: &Subject, durable: &str) -> Subject {
    let replayed = subject
        .strip_prefix(REPLAY)
        .and_then(|rest| rest.strip_prefix(durable)?.strip_prefix('.'));
    replayed.map_or_else(|| subject.clone(), Subject::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_message_has_its_original_subject() {
        for (subject, original) in [
            ("replay.gps.a.b", "a.b"),
            ("replay.gps.replay.gps.a", "replay.gps.a"),
            ("a.b", "a.b"),
            ("replay.gps2.a", "replay.gps2.a"),
            ("replay.gpsx", "replay.gpsx"),
        ] {
            assert_eq!(original_subject(&subject.into(), "gps"), original);
        }
    }
}
