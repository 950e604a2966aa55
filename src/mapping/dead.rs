//! Dead letters: what a message that cannot be delivered becomes.

use super::header;
use super::rules::Mapping;
use super::subject;
use crate::device::DeviceId;
use crate::message::{Headers, Message};
use crate::mqtt::Publish;

/// Why it is one: a word of a fixed set.
const REASON: &str = "Jw-Reason";

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

impl Mapping {
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
        let mut headers = Headers::with_capacity(8);
        headers.push(REASON, death.reason);
        headers.push(header::TS, death.now_ms.to_string());
        if let Some(publish) = publish {
            headers.push(header::TOPIC, header::value(&publish.topic));
            headers.push(header::QOS, header::qos(publish.qos));
        }
        if let Some(sequence) = death.sequence {
            headers.push(header::KEPT_SEQUENCE, sequence.to_string());
            headers.push(header::MSG_ID, format!("dead.{tokens}.{sequence}"));
        }
        let payload = match (stored, publish) {
            (Some(stored), _) => {
                headers.push(header::SUBJECT, stored.subject.clone());
                let own = stored
                    .headers
                    .iter()
                    .filter(|(name, _)| !header::is_servers(name) && headers.get(name).is_none());
                let own: Vec<_> = own
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                own.into_iter()
                    .for_each(|(name, value)| headers.push(name, value));
                stored.payload.clone()
            }
            (None, Some(publish)) => {
                if let Some(content_type) = &publish.properties.content_type {
                    headers.push(header::CONTENT_TYPE, header::content_type(content_type));
                }
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

#[cfg(test)]
mod tests {
    use super::*;

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
