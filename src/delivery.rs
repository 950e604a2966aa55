//! A message between a durable and the one who handles it: plain data, the same for every broker.
//!
//! The words are those of JetStream. A broker that knows less keeps the meaning all the same. No connection, no clock.

use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::message::{Message, Subject};

/// What a server says about a stored message to those who read it back; a sender's own words in their place are dropped.
pub const ABOUT_STORED: [&str; 4] = [
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Last-Sequence",
    "Nats-Time-Stamp",
];

/// A message in the hands of one puller until it is answered.
#[derive(Debug)]
pub struct Delivered {
    /// The stored message, with headers that say sequence and time as for a direct get.
    pub message: Message,
    /// Its stream sequence.
    pub sequence: u64,
    /// How often it was delivered, this time included; from 1.
    pub attempt: u64,
    /// What it counts, in bytes.
    pub bytes: usize,
    /// Where its [`Answer`] goes.
    pub reply: Subject,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// A message.
    Message(Delivered),
    /// The pull is over; another one may follow at once.
    Ended,
    /// The server did not take the pull, and says why; wait before the next.
    Refused(String),
    /// The consumer does not exist any more.
    Gone,
}

/// What a puller says about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Ack,
    /// Someone should have it, now.
    Nak,
    /// Someone should have it, after this time.
    NakAfter(Duration),
    /// Nobody should have it again, for this reason, of which the server's advisory tells.
    Terminate(String),
    /// It is being worked on: `ack_wait` begins anew.
    Progress,
}

/// How a durable consumer treats a message that is not acknowledged, as the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// After this without a word a message is given to someone else; with a backoff that takes its place.
    pub ack_wait: Duration,
    /// The same per delivery, the last one for all further ones; may be empty.
    pub backoff: Vec<Duration>,
    /// After so many deliveries the server gives a message up, with an advisory; `None`: never.
    pub deliveries_max: Option<u64>,
}

impl Delivered {
    /// A message as it was stored at this sequence and Unix time, in its delivery `attempt`, answered to `reply`.
    #[must_use]
    pub fn new(
        mut message: Message,
        sequence: u64,
        stored_ms: u64,
        attempt: u64,
        reply: Subject,
    ) -> Self {
        for name in ABOUT_STORED {
            message.headers.remove(name);
        }
        let bytes = message.wire_bytes();
        let stored_at =
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(stored_ms) * 1_000_000);
        let stored_at = stored_at.ok().and_then(|time| time.format(&Rfc3339).ok());
        message.headers.push("Nats-Sequence", sequence.to_string());
        if let Some(stored_at) = stored_at {
            message.headers.push("Nats-Time-Stamp", stored_at);
        }
        Self {
            message,
            sequence,
            attempt,
            bytes,
            reply,
        }
    }
}

impl Redelivery {
    /// From a consumer's configuration in the JetStream API; what it does not say is the server's own.
    #[must_use]
    pub fn read(config: &Value) -> Self {
        let time = |value: &Value| value.as_u64().map(Duration::from_nanos);
        let backoff = config.get("backoff").and_then(Value::as_array);
        Self {
            ack_wait: config
                .get("ack_wait")
                .and_then(time)
                .unwrap_or(Duration::from_secs(30)),
            backoff: backoff.into_iter().flatten().filter_map(time).collect(),
            deliveries_max: config.get("max_deliver").and_then(Value::as_u64),
        }
    }

    /// How long a delivery, counted from 1, may be without a word.
    #[must_use]
    pub fn wait(&self, attempt: u64) -> Duration {
        let step = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        let step = self.backoff.get(step).or_else(|| self.backoff.last());
        step.copied().unwrap_or(self.ack_wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    #[test]
    fn where_a_message_is_stored_is_the_servers_word() {
        let mut headers = Headers::default();
        headers.push("Nats-Sequence", "1");
        headers.push("a", "b");
        let message = Message {
            subject: "s".into(),
            headers,
            payload: "".into(),
        };
        let delivered = Delivered::new(message, 7, 1_700_000_000_000, 1, "r".into());
        let headers: Vec<_> = delivered.message.headers.iter().collect();
        let time = ("Nats-Time-Stamp", "2023-11-14T22:13:20Z");
        assert_eq!(headers, [("a", "b"), ("Nats-Sequence", "7"), time]);
    }

    #[test]
    fn each_delivery_waits_for_its_step_and_the_last_one_stays() {
        let seconds = |value: u64| value * 1_000_000_000;
        let config = serde_json::json!({"backoff": [seconds(1), seconds(7)], "max_deliver": 4});
        let ladder = Redelivery::read(&config);
        let waits = [1, 2, 3, 9].map(|attempt| ladder.wait(attempt).as_secs());
        assert_eq!((waits, ladder.deliveries_max), ([1, 7, 7, 7], Some(4)));
        let plain = Redelivery::read(&serde_json::json!({"ack_wait": seconds(5)}));
        assert_eq!((plain.wait(3).as_secs(), plain.deliveries_max), (5, None));
        assert_eq!(Redelivery::read(&Value::Null).wait(1).as_secs(), 30);
    }
}
