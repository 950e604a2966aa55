//! Dead letters: what a message that cannot be delivered becomes.

use bytestring::ByteString;

use super::Error;
use super::header;
use super::rules::Mapping;
use super::subject;
use crate::device::DeviceId;
use crate::message::{Headers, Message};
use crate::mqtt::Publish;

/// Why it is one: a word of a fixed set.
const REASON: &str = "Jw-Reason";
/// What was expected, and where.
const RULE: &str = "Jw-Rule";
const PATH: &str = "Jw-Path";

/// What is known of the end.
#[derive(Debug, Clone, Copy)]
pub struct Death {
    /// Why, a word of a fixed set.
    pub reason: &'static str,
    /// The message's place in the delivery stream.
    pub sequence: Option<u64>,
    /// When, Unix milliseconds.
    pub now_ms: u64,
}

/// What is known of a stored message that gives no event, or not all that it says.
#[derive(Debug, Clone, Copy)]
pub struct EventDeath<'a> {
    /// Who gives it up, a token: `events`, `gps`.
    pub origin: &'static str,
    /// Why, a word of a fixed set.
    pub reason: &'static str,
    /// Where in it, a JSON pointer; may be empty.
    pub path: &'a str,
    /// What was expected there.
    pub rule: &'a str,
    /// Its stream, and when that was created: sequences of another stream of the name mean nothing.
    pub stream: &'a str,
    /// See `stream`.
    pub created: &'a str,
    /// Its place in the stream.
    pub sequence: u64,
    /// When the gateway received it, Unix milliseconds.
    pub received_ms: u64,
    /// Its trace.
    pub traceparent: &'a str,
    /// Now, Unix milliseconds.
    pub now_ms: u64,
}

/// The longest text of a rule or path that a dead letter has, in bytes.
const WORDS_BYTES_MAX: usize = 256;

impl Mapping {
    /// An uplink with a fault, payload and headers as they are stored: `dlq.<origin>.<productID>.<deviceName>`. The same message gives
    /// the same message id each time.
    #[must_use]
    pub fn dead_event(device: &DeviceId, stored: &Message, death: &EventDeath<'_>) -> Message {
        let EventDeath {
            origin,
            stream,
            sequence,
            received_ms,
            ..
        } = *death;
        let mut headers = Headers::with_capacity(stored.headers.wire_bytes() + 512);
        headers.push(REASON, death.reason);
        headers.push(RULE, words(death.rule));
        headers.push(PATH, words(death.path));
        headers.push(header::TS, death.now_ms.to_string());
        headers.push(header::STREAM, stream);
        headers.push(header::STREAM_CREATED, death.created);
        headers.push(header::KEPT_SEQUENCE, sequence.to_string());
        let id = format!("dead.{origin}.{stream}.{sequence}.{received_ms}");
        headers.push(header::MSG_ID, id);
        headers.push(header::TRACEPARENT, death.traceparent);
        push_original(&mut headers, stored);
        Message {
            subject: format!("dlq.{origin}.{}", subject::device_tokens(device)).into(),
            headers,
            payload: stored.payload.clone(),
        }
    }

    /// Which message a dead letter of [`dead_event`](Self::dead_event) is about: when its stream was created, and the sequence.
    #[must_use]
    pub fn dead_event_of(dead: &Message) -> Option<(&str, u64)> {
        let created = dead.headers.get(header::STREAM_CREATED)?;
        let sequence = dead.headers.get(header::KEPT_SEQUENCE)?;
        Some((created, sequence.parse().ok()?))
    }

    /// An uplink that has no place in a stream: `dlq.uplink.<productID>.<deviceName>`, with its topic, QoS and payload. No other
    /// message has its `id`.
    #[must_use]
    pub fn dead_uplink(
        device: &DeviceId,
        publish: &Publish,
        error: &Error,
        id: &str,
        now_ms: u64,
    ) -> Message {
        let mut headers = Headers::with_capacity(512);
        headers.push(REASON, error.reason());
        headers.push(RULE, words(&error.to_string()));
        headers.push(header::TS, now_ms.to_string());
        headers.push(header::MSG_ID, format!("dead.{id}"));
        push_known(&mut headers, publish);
        push_content_type(&mut headers, publish);
        Message {
            subject: format!("dlq.uplink.{}", subject::device_tokens(device)).into(),
            headers,
            payload: publish.payload.clone(),
        }
    }

    /// A downlink that its device does not get: `dlq.downlink.<productID>.<deviceName>`, payload and headers as they were in
    /// `stored`, or as far as they are known from `publish`; none if nothing is known. The same message and device give the same
    /// message id each time.
    #[must_use]
    pub fn dead_downlink(
        device: &DeviceId,
        stored: Option<&Message>,
        publish: Option<&Publish>,
        death: &Death,
    ) -> Option<Message> {
        let tokens = subject::device_tokens(device);
        let mut headers = Headers::with_capacity(512);
        headers.push(REASON, death.reason);
        headers.push(header::TS, death.now_ms.to_string());
        if let Some(publish) = publish {
            push_known(&mut headers, publish);
        }
        if let Some(sequence) = death.sequence {
            headers.push(header::KEPT_SEQUENCE, sequence.to_string());
            headers.push(header::MSG_ID, format!("dead.{tokens}.{sequence}"));
        }
        let payload = match (stored, publish) {
            (Some(stored), _) => {
                push_original(&mut headers, stored);
                stored.payload.clone()
            }
            (None, Some(publish)) => {
                push_content_type(&mut headers, publish);
                publish.payload.clone()
            }
            (None, None) => return None,
        };
        Some(Message {
            subject: format!("dlq.downlink.{tokens}").into(),
            headers,
            payload,
        })
    }
}

/// A text of ours or of a device, cut to what a header has room for.
fn words(text: &str) -> ByteString {
    let text = text.get(..text.floor_char_boundary(WORDS_BYTES_MAX));
    header::value(&text.unwrap_or_default().into())
}

fn push_known(headers: &mut Headers, publish: &Publish) {
    headers.push(header::TOPIC, header::value(&publish.topic));
    headers.push(header::QOS, header::qos(publish.qos));
}

fn push_content_type(headers: &mut Headers, publish: &Publish) {
    if let Some(content_type) = &publish.properties.content_type {
        headers.push(header::CONTENT_TYPE, header::content_type(content_type));
    }
}

/// The subject that a message was stored under, and its headers: none that the server obeys, none that is said already.
fn push_original(headers: &mut Headers, stored: &Message) {
    headers.push(header::SUBJECT, &stored.subject);
    let own = stored
        .headers
        .iter()
        .filter(|(name, _)| !header::is_servers(name) && headers.get(name).is_none());
    let own: Vec<_> = own
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    own.into_iter()
        .for_each(|(name, value)| headers.push(name, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_event_says_what_is_wrong_where_and_of_which_message() {
        let mut headers = Headers::default();
        headers.push("Nats-Msg-Id", "theirs");
        headers.push("Jw-Id", "a.1");
        let stored = Message {
            subject: "device.up.mqtt.thing.P.D".into(),
            headers,
            payload: "{".into(),
        };
        let death = EventDeath {
            origin: "events",
            reason: "malformed",
            path: "/a\nb",
            rule: &"\u{e9}".repeat(200),
            stream: "DEVICE_UP",
            created: "2026-01-01T00:00:00Z",
            sequence: 7,
            received_ms: 9,
            traceparent: "00-0-0-01",
            now_ms: 11,
        };
        let device = DeviceId::new("P", "D").unwrap();
        let dead = Mapping::dead_event(&device, &stored, &death);
        assert_eq!(dead.subject, "dlq.events.P.D");
        assert_eq!(dead.payload, "{");
        let rule = "\u{e9}".repeat(128);
        let expected = [
            ("Jw-Reason", "malformed"),
            ("Jw-Rule", &*rule),
            ("Jw-Path", "/a%0Ab"),
            ("Jw-Ts", "11"),
            ("Jw-Stream", "DEVICE_UP"),
            ("Jw-Stream-Created", "2026-01-01T00:00:00Z"),
            ("Jw-Sequence", "7"),
            ("Nats-Msg-Id", "dead.events.DEVICE_UP.7.9"),
            ("traceparent", "00-0-0-01"),
            ("Jw-Subject", "device.up.mqtt.thing.P.D"),
            ("Jw-Id", "a.1"),
        ];
        assert_eq!(dead.headers.iter().collect::<Vec<_>>(), expected);
        assert_eq!(
            Mapping::dead_event_of(&dead),
            Some(("2026-01-01T00:00:00Z", 7))
        );
        assert_eq!(Mapping::dead_event_of(&stored), None);
    }

    #[test]
    fn a_dead_letter_has_the_original_bytes_and_headers_and_none_that_the_server_obeys() {
        let mut headers = Headers::default();
        for (name, value) in [
            ("Nats-Subject", "device.down.mqtt.thing.P.D"),
            ("nats-ttl", "1"),
            ("Nats-Msg-Id", "theirs"),
            ("Jw-Reason", "forged"),
            ("Jw-User-a", "1"),
            ("Jw-User-a", "2"),
        ] {
            headers.push(name, value);
        }
        let stored = Message {
            subject: "device.down.mqtt.thing.P.D".into(),
            headers,
            payload: "bytes".into(),
        };
        let death = Death {
            reason: "expired",
            sequence: Some(7),
            now_ms: 5,
        };
        let device = DeviceId::new("P.1", "D").unwrap();
        let dead = Mapping::dead_downlink(&device, Some(&stored), None, &death).unwrap();
        assert_eq!(dead.subject, "dlq.downlink.P%2E1.D");
        assert_eq!(dead.payload, "bytes");
        let expected = [
            ("Jw-Reason", "expired"),
            ("Jw-Ts", "5"),
            ("Jw-Sequence", "7"),
            ("Nats-Msg-Id", "dead.P%2E1.D.7"),
            ("Jw-Subject", "device.down.mqtt.thing.P.D"),
            ("Jw-User-a", "1"),
            ("Jw-User-a", "2"),
        ];
        assert_eq!(dead.headers.iter().collect::<Vec<_>>(), expected);
        assert_eq!(Mapping::dead_downlink(&device, None, None, &death), None);
    }
}
