//! A message as it lies in a stream, however it was read: one shape for pages, leaders' answers and consumers.
//!
//! What says where it is stored (`Nats-Subject`, `Nats-Sequence`, `Nats-Time-Stamp`) is the server's: headers of these
//! names that a sender wrote are left out.

use async_nats::HeaderMap;
use bytes::Bytes;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::message::{Headers, Message, Subject};

const SUBJECT: &str = "Nats-Subject";
const SEQUENCE: &str = "Nats-Sequence";
const TIME_STAMP: &str = "Nats-Time-Stamp";
/// What only the server says about a stored message.
const OWN: [&str; 7] = [
    "Nats-Stream",
    SUBJECT,
    SEQUENCE,
    TIME_STAMP,
    "Nats-Last-Sequence",
    "Nats-Num-Pending",
    "Nats-UpTo-Sequence",
];

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// Under the subject that it is stored under; its headers name subject, sequence and time too:
    /// `Nats-Subject`, `Nats-Sequence`, `Nats-Time-Stamp`.
    pub message: Message,
    /// When it was stored, in Unix milliseconds.
    pub time_ms: u64,
}

impl Stored {
    /// `time` is RFC 3339, as the server writes it.
    pub(super) fn new(
        subject: Subject,
        sequence: u64,
        time: &str,
        sent: Option<&HeaderMap>,
        payload: Bytes,
    ) -> Option<Self> {
        let at = OffsetDateTime::parse(time, &Rfc3339).ok()?;
        let time_ms = u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?;
        let mut headers = Headers::with_capacity(64 * (3 + sent.map_or(0, HeaderMap::len)));
        headers.push(SUBJECT, &subject);
        headers.push(SEQUENCE, sequence.to_string());
        headers.push(TIME_STAMP, time);
        for (name, values) in sent.into_iter().flat_map(HeaderMap::iter) {
            let name: &str = name.as_ref();
            if OWN.contains(&name) {
                continue;
            }
            for value in values {
                headers.push(name, value.as_str());
            }
        }
        let message = Message {
            subject,
            headers,
            payload,
        };
        Some(Self {
            sequence,
            message,
            time_ms,
        })
    }

    /// From the answer to a direct get.
    pub(super) fn read(answer: async_nats::Message) -> Option<Self> {
        let headers = answer.headers.as_ref()?;
        let last = |name| Some(headers.get_last(name)?.as_str());
        let sequence = last(SEQUENCE)?.parse().ok()?;
        let subject = last(SUBJECT)?.into();
        Self::new(
            subject,
            sequence,
            last(TIME_STAMP)?,
            Some(headers),
            answer.payload,
        )
    }

    /// From a consumer, whose reply subject tells sequence and time: `$JS.ACK.…`. Gives also the consumer's own count of
    /// what it has delivered, from 1.
    pub(super) fn delivered(message: async_nats::Message) -> Option<(u64, Self)> {
        let reply = message.reply.as_deref()?.strip_prefix("$JS.ACK.")?;
        // Before stream, consumer and the numbers there may be a domain and an account; behind them a token to tell
        // replies apart.
        let tokens: Vec<&str> = reply.split('.').collect();
        let first = if tokens.len() >= 9 { 5 } else { 3 };
        let number = |at: usize| tokens.get(first + at)?.parse::<u64>().ok();
        let (sequence, delivered) = (number(0)?, number(1)?);
        let at = OffsetDateTime::from_unix_timestamp_nanos(number(2)?.into()).ok()?;
        let subject = message.subject.as_str().into();
        let time = at.format(&Rfc3339).ok()?;
        let (headers, payload) = (message.headers.as_ref(), message.payload);
        let stored = Self::new(subject, sequence, &time, headers, payload)?;
        Some((delivered, stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(reply: &str, headers: &[(&str, &str)]) -> async_nats::Message {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        async_nats::Message {
            subject: "a.b".into(),
            reply: Some(reply.into()),
            payload: "x".into(),
            headers: Some(map),
            status: None,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn a_consumer_says_where_a_message_is_stored() {
        for reply in [
            "$JS.ACK.S.C.1.42.7.1700000000123456789.0",
            "$JS.ACK._.HASH.S.C.1.42.7.1700000000123456789.0",
            "$JS.ACK.hub.HASH.S.C.1.42.7.1700000000123456789.0.random",
        ] {
            let (delivered, stored) = Stored::delivered(message(reply, &[("A", "1")])).unwrap();
            assert_eq!((delivered, stored.sequence), (7, 42), "{reply}");
            assert_eq!(stored.time_ms, 1_700_000_000_123);
            let header = |name| stored.message.headers.get(name);
            assert_eq!(header("Nats-Sequence"), Some("42"));
            assert_eq!(header("Nats-Subject"), Some("a.b"));
            let time = header("Nats-Time-Stamp");
            assert_eq!(time, Some("2023-11-14T22:13:20.123456789Z"));
            assert_eq!(header("A"), Some("1"));
        }
        for reply in ["", "$JS.ACK.S.C.1", "$JS.ACK.S.C.1.x.7.1.0"] {
            assert_eq!(Stored::delivered(message(reply, &[])), None, "{reply}");
        }
    }

    #[test]
    fn a_sender_cannot_say_where_a_message_is_stored() {
        let headers = [
            ("Nats-Sequence", "1"),
            ("Nats-Subject", "forged"),
            ("Nats-Sequence", "42"),
            ("Nats-Subject", "a.b"),
            ("Nats-Time-Stamp", "2023-11-14T22:13:20Z"),
        ];
        let stored = Stored::read(message("", &headers)).unwrap();
        assert_eq!(stored.sequence, 42);
        assert_eq!(stored.message.subject, "a.b");
        let subjects = stored.message.headers.iter();
        let subjects: Vec<_> = subjects.filter(|(name, _)| *name == SUBJECT).collect();
        assert_eq!(subjects, [(SUBJECT, "a.b")]);
    }
}
