//! Stored downlinks to PUBLISH packets: topic, type, quality of service, lifetime, properties.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::device::Direction;
use crate::mapping::Settings;
use crate::message::Headers;
use crate::mqtt::{PublishProperties, QoS};

pub(in crate::mapping) static MAPPING: LazyLock<Mapping> =
    LazyLock::new(|| Mapping::load(&Settings::default(), None).unwrap());

/// A message as the republish of DEVICE_DOWN delivers it.
pub(in crate::mapping) fn message(
    handle: &str,
    headers: &[(&str, &str)],
    payload: &[u8],
) -> Message {
    let stored = format!("device.down.mqtt.{handle}.P.D%2E1");
    let server = [
        ("Nats-Stream", "DEVICE_DOWN"),
        ("Nats-Subject", &stored),
        ("Nats-Sequence", "42"),
        ("Nats-Time-Stamp", "2026-11-29T15:44:06.209875884Z"),
        ("Nats-Last-Sequence", "41"),
    ];
    let mut all = Headers::default();
    for (name, value) in headers.iter().chain(&server) {
        all.push(*name, *value);
    }
    Message {
        subject: "_jw.dn.P.D%2E1.mqtt".into(),
        headers: all,
        payload: Bytes::copy_from_slice(payload),
    }
}

pub(in crate::mapping) fn downlink(
    handle: &str,
    headers: &[(&str, &str)],
    payload: &[u8],
) -> Result<Downlink, Error> {
    MAPPING.downlink(&message(handle, headers, payload))
}

pub(in crate::mapping) fn fault(handle: &str, headers: &[(&str, &str)], payload: &[u8]) -> String {
    downlink(handle, headers, payload)
        .expect_err("it is wrong")
        .to_string()
}

#[test]
fn a_plain_downlink() {
    let expected = Downlink {
        topic: "$thing/down/property/P/D.1".to_owned(),
        qos: QoS::AtLeastOnce,
        retain: false,
        payload: Bytes::from_static(b"x"),
        properties: PublishProperties::default(),
        stream_sequence: 42,
        last_sequence: Some(41),
        expires: None,
        id: None,
        receipt: None,
        publisher: None,
    };
    assert_eq!(downlink("thing", &[], b"x").unwrap(), expected);
}

#[test]
fn a_downlink_that_is_read_back() {
    let mut headers = Headers::default();
    headers.push("Nats-Subject", "device.down.mqtt.ota.P.D");
    headers.push("Nats-Sequence", "7");
    let message = Message {
        subject: "_INBOX.x".into(),
        headers,
        payload: Bytes::new(),
    };
    let found = MAPPING.downlink(&message).unwrap();
    assert_eq!(
        (
            found.topic.as_str(),
            found.stream_sequence,
            found.last_sequence
        ),
        ("$ota/down/progress/P/D", 7, None)
    );
}

/// Handle, Jw-Type, payload, and the topic.
const TYPES: &[(&str, Option<&str>, &str, &str)] = &[
    (
        "thing",
        Some("event"),
        "{\"method\":\"control\"}",
        "$thing/down/event/P/D.1",
    ),
    (
        "thing",
        None,
        "{\"method\":\"control\",\"params\":{}}",
        "$thing/down/property/P/D.1",
    ),
    (
        "thing",
        None,
        " {\"params\":{\"method\":\"x\"},\"method\":\"eventReply\"}",
        "$thing/down/event/P/D.1",
    ),
    (
        "thing",
        None,
        "{\"method\":\"a\\u0063tion\"}",
        "$thing/down/action/P/D.1",
    ),
    (
        "thing",
        None,
        "{\"method\":\"unheard\"}",
        "$thing/down/property/P/D.1",
    ),
    (
        "thing",
        None,
        "{\"method\":7}",
        "$thing/down/property/P/D.1",
    ),
    (
        "thing",
        None,
        "{\"method\":\"action\"",
        "$thing/down/property/P/D.1",
    ),
    ("thing", None, "[\"action\"]", "$thing/down/property/P/D.1"),
    ("thing", None, "\u{0}\u{1}", "$thing/down/property/P/D.1"),
    (
        "gateway",
        None,
        "{\"method\":\"online\"}",
        "$gateway/down/status/P/D.1",
    ),
    ("gateway", None, "null", "$gateway/down/topo/P/D.1"),
    (
        "config",
        None,
        "{\"method\":\"reply\"}",
        "$config/down/get/P/D.1",
    ),
    (
        "ext",
        None,
        "{\"method\":\"getNtpReply\"}",
        "$ext/down/ntp/P/D.1",
    ),
];

#[test]
fn the_type_is_said_or_told_by_the_method_or_the_default() {
    for (handle, kind, payload, topic) in TYPES {
        let headers: Vec<_> = kind.iter().map(|kind| ("Jw-Type", *kind)).collect();
        let found = downlink(handle, &headers, payload.as_bytes()).unwrap();
        assert_eq!(found.topic, *topic, "{payload}");
    }
}

#[test]
fn a_topic_is_honoured_only_of_the_same_rule_and_device() {
    let own = "$thing/down/property/custom/P/D.1";
    assert_eq!(
        downlink("thing", &[("Jw-Topic", own)], b"").unwrap().topic,
        own
    );
    let rpc = "$rpc/down/17/P/D.1";
    assert_eq!(
        downlink("rpc", &[("Jw-Topic", rpc)], b"").unwrap().topic,
        rpc
    );
    for topic in [
        "$thing/up/property/P/D.1",
        "$ota/down/upgrade/P/D.1",
        "$thing/down/property/P/D.2",
        "$thing/down/property/Q/D.1",
        "$thing/down/+/P/D.1",
        "$thing/down/P/D.1",
        "",
    ] {
        let expected = format!(
            "Jw-Topic or field topic: found {topic:?}, expected $thing/down/{{type}}/{{extra...}}/{{product}}/{{device}} of P/D.1"
        );
        assert_eq!(fault("thing", &[("Jw-Topic", topic)], b""), expected);
    }
    let expected =
        "Jw-Topic or field topic: found \"\", expected $rpc/down/{id}/{product}/{device} of P/D.1";
    assert_eq!(fault("rpc", &[], b""), expected);
}

#[test]
fn headers_are_properties_again() {
    // G40
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let found = downlink(
        "thing",
        &[
            ("Content-Type", "%61pplication/vnd.jetway.x"),
            ("Jw-Payload-Format", "1"),
            ("Jw-Response-Topic", "answers/50%25"),
            ("Jw-Correlation", "AP8="),
            ("Jw-User-b", "1%0D%0A"),
            ("Jw-User-a%3A", "50%"),
            ("Jw-User-b", "3"),
            ("traceparent", trace),
            ("X-Other", "stays with the service"),
        ],
        "größe".as_bytes(),
    );
    let expected = PublishProperties {
        payload_format_indicator: Some(1),
        response_topic: Some("answers/50%".into()),
        correlation_data: Some(Bytes::from_static(&[0, 255])),
        content_type: Some("application/vnd.jetway.x".into()),
        user: [
            ("traceparent", trace),
            ("b", "1\r\n"),
            ("a:", "50%"),
            ("b", "3"),
        ]
        .into_iter()
        .collect(),
        ..PublishProperties::default()
    };
    assert_eq!(found.unwrap().properties, expected);
}

#[test]
fn what_the_sender_asks_for() {
    let found = downlink(
        "thing",
        &[
            ("Jw-Qos", "0"),
            ("Jw-Retain", "1"),
            ("Jw-Id", "a"),
            ("Nats-Msg-Id", "b"),
        ],
        b"",
    );
    let found = found.unwrap();
    assert_eq!(
        (found.qos, found.retain, found.id.as_deref()),
        (QoS::AtMostOnce, true, Some("a"))
    );
    let found = downlink("thing", &[("Jw-Qos", "2"), ("Nats-Msg-Id", "b")], b"").unwrap();
    assert_eq!(
        (found.qos, found.id.as_deref()),
        (QoS::ExactlyOnce, Some("b"))
    );
}

#[test]
fn a_lifetime_ends_at_a_time() {
    let stored_ms = 1_795_967_046_209;
    for (headers, expected) in [
        (
            &[("Jw-Expires", "1754000000123")][..],
            Some(1_754_000_000_123),
        ),
        (&[("Nats-TTL", "90")], Some(stored_ms + 89_000)),
        (&[("Nats-TTL", "1h30m5s")], Some(stored_ms + 5_404_000)),
        (&[("Nats-TTL", "never")], None),
        (&[("Nats-TTL", "90"), ("Jw-Expires", "1")], Some(1)),
    ] {
        let found = downlink("thing", headers, b"").unwrap().expires;
        assert_eq!(found.map(|expiry| expiry.unix_ms), expected, "{headers:?}");
    }
}

#[test]
fn what_is_left_of_a_lifetime() {
    // [MQTT-3.3.2-6]
    let expiry = Expiry { unix_ms: 10_000 };
    for (now_ms, left) in [
        (0, Some(10)),
        (9_000, Some(1)),
        (9_001, Some(1)),
        (9_999, Some(1)),
        (10_000, None),
        (20_000, None),
    ] {
        assert_eq!(expiry.left(now_ms), left, "{now_ms}");
    }
    assert_eq!(Expiry { unix_ms: u64::MAX }.left(0), Some(u32::MAX));
}

#[test]
fn a_subject_of_no_rule_is_an_error() {
    for subject in [
        "device.down.mqtt.status.fix",
        "device.down.other.thing.P.D",
        "device.down.mqtt.thing.P.a%2e",
        "device.down.mqtt.thing.P",
        "device.down.mqtt.thing.P.D.E",
        "device.down.thing.P.D",
        "",
    ] {
        let message = Message {
            subject: subject.into(),
            headers: Headers::default(),
            payload: Bytes::new(),
        };
        assert_eq!(
            MAPPING.downlink(&message),
            Err(Error::Subject(subject.to_owned()))
        );
    }
}

proptest! {
    #[test]
    fn whatever_a_service_sends_is_a_topic_of_the_device_or_an_error(
        kind in prop::option::of("(?s).{0,8}|[a-z%0-9A-F+/#]{1,8}"),
        topic in prop::option::of("\\$thing/(up|down)/[a-z+]{0,3}/?(P|Q)/D.1"),
        payload in "\\{\"method\":\"[a-zA-Z+/]{0,12}\"\\}|(?s).{0,20}",
    ) {
        let mut headers = Vec::new();
        headers.extend(kind.as_deref().map(|kind| ("Jw-Type", kind)));
        headers.extend(topic.as_deref().map(|topic| ("Jw-Topic", topic)));
        if let Ok(found) = downlink("thing", &headers, payload.as_bytes()) {
            let address = MAPPING.address(&found.topic).expect("a topic of ours");
            prop_assert_eq!((address.product, address.name), ("P", "D.1"));
            prop_assert_eq!(address.direction, Direction::Down);
            prop_assert!(!found.topic.contains(['+', '#', '\0']));
        }
    }
}
