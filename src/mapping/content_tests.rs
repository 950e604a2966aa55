//! What a sender wrote into a downlink, in both forms, and where it went wrong.

use super::*;
use crate::mapping::UserProperty;
use crate::mapping::downlink::Downlink;
use crate::mapping::downlink::tests::{MAPPING, downlink, fault, message};
use crate::message::Headers;

/// A header's name and value, and the fault.
const WRONG_HEADERS: &[(&str, &str, &str)] = &[
    (
        "Jw-Qos",
        "3",
        "header Jw-Qos: found \"3\", expected 0, 1 or 2",
    ),
    (
        "Jw-Retain",
        "yes",
        "header Jw-Retain: found \"yes\", expected 0 or 1",
    ),
    (
        "Jw-Type",
        "a/b",
        "Jw-Type or field type: found \"a/b\", expected one level of a topic name",
    ),
    (
        "Jw-Type",
        "+",
        "Jw-Type or field type: found \"+\", expected one level of a topic name",
    ),
    (
        "Jw-Type",
        "",
        "Jw-Type or field type: found \"\", expected one level of a topic name",
    ),
    (
        "Jw-Type",
        "a%00",
        "Jw-Type or field type: found \"a\\0\", expected one level of a topic name",
    ),
    (
        "Jw-Expires",
        "soon",
        "header Jw-Expires: found \"soon\", expected an integer, at least 0",
    ),
    (
        "Nats-TTL",
        "1.5h",
        "header Nats-TTL: found \"1.5h\", expected seconds, or hours, minutes and seconds such as 1h30m",
    ),
    (
        "Jw-Payload-Format",
        "2",
        "header Jw-Payload-Format: found \"2\", expected 0 or 1",
    ),
    (
        "Jw-Payload-Format",
        "1",
        "header Jw-Payload-Format: found \"1\", expected 1 only with a payload of UTF-8",
    ),
    (
        "Jw-Correlation",
        "?",
        "header Jw-Correlation: found \"?\", expected base64",
    ),
    (
        "Jw-Response-Topic",
        "a/#",
        "header Jw-Response-Topic: found \"a/#\", expected a topic name",
    ),
    (
        "Jw-Response-Topic",
        "",
        "header Jw-Response-Topic: found \"\", expected a topic name",
    ),
    (
        "Jw-User-a",
        "%00",
        "header Jw-User-: found \"\\0\", expected at most 65535 bytes without U+0000",
    ),
    (
        "Content-Type",
        "%00",
        "header Content-Type: found \"\\0\", expected at most 65535 bytes without U+0000",
    ),
];

#[test]
fn each_wrong_header_is_named() {
    for (name, value, expected) in WRONG_HEADERS {
        assert_eq!(fault("thing", &[(name, value)], &[0xFF]), *expected);
    }
    let mut message = message("thing", &[], b"");
    message.headers = Headers::default();
    message.subject = "device.down.mqtt.thing.P.D".into();
    let expected = "header Nats-Sequence: found \"\", expected an integer, at least 0";
    assert_eq!(
        MAPPING.downlink(&message).unwrap_err().to_string(),
        expected
    );
}

fn envelope(message: &DeviceMessage) -> Result<Downlink, Error> {
    downlink(
        "thing",
        &[("Content-Type", CONTENT_TYPE), ("Nats-TTL", "1")],
        &message.encode_to_vec(),
    )
}

#[test]
fn the_protobuf_form() {
    let message = DeviceMessage {
        id: "a".to_owned(),
        handle: "thing".to_owned(),
        product_id: "P".to_owned(),
        device_name: "D.1".to_owned(),
        qos: Some(0),
        retain: true,
        traceparent: "t".to_owned(),
        payload: Bytes::from_static(b"{\"method\":\"action\"}"),
        content_type: Some("text/plain".to_owned()),
        response_topic: Some("r".to_owned()),
        correlation_data: Some(Bytes::new()),
        payload_format: Some(0),
        expires_at_ms: Some(9),
        user_properties: vec![UserProperty {
            name: "n%20".to_owned(),
            value: "v".to_owned(),
        }],
        ..DeviceMessage::default()
    };
    let expected = Downlink {
        topic: "$thing/down/action/P/D.1".to_owned(),
        qos: QoS::AtMostOnce,
        retain: true,
        payload: message.payload.clone(),
        properties: PublishProperties {
            payload_format_indicator: Some(0),
            response_topic: Some("r".into()),
            correlation_data: Some(Bytes::new()),
            content_type: Some("text/plain".into()),
            user: [("traceparent", "t"), ("n%20", "v")].into_iter().collect(),
            ..PublishProperties::default()
        },
        stream_sequence: 42,
        last_sequence: Some(41),
        expires: Some(Expiry { unix_ms: 9 }),
        id: Some("a".to_owned()),
        receipt: None,
        publisher: None,
    };
    assert_eq!(envelope(&message).unwrap(), expected);
    let plain = envelope(&DeviceMessage::default()).unwrap();
    assert_eq!(
        (plain.qos, plain.topic.as_str()),
        (QoS::AtLeastOnce, "$thing/down/property/P/D.1")
    );
    assert_eq!(
        plain.expires,
        Some(Expiry {
            unix_ms: 1_795_967_046_709
        })
    );
}

#[test]
fn a_wrong_protobuf_downlink_is_named() {
    let with = |change: fn(&mut DeviceMessage)| {
        let mut message = DeviceMessage::default();
        change(&mut message);
        envelope(&message).unwrap_err().to_string()
    };
    for (found, expected) in [
        (
            with(|m| m.handle = "ota".into()),
            "field handle: found \"ota\", expected \"thing\", as in the subject",
        ),
        (
            with(|m| m.product_id = "Q".into()),
            "field product_id: found \"Q\", expected \"P\", as in the subject",
        ),
        (
            with(|m| m.device_name = "E".into()),
            "field device_name: found \"E\", expected \"D.1\", as in the subject",
        ),
        (
            with(|m| m.qos = Some(3)),
            "field qos: found \"3\", expected 0, 1 or 2",
        ),
        (
            with(|m| m.payload_format = Some(9)),
            "field payload_format: found \"9\", expected 0 or 1",
        ),
        (
            with(|m| m.expires_at_ms = Some(-1)),
            "field expires_at_ms: found \"-1\", expected an integer, at least 0",
        ),
        (
            with(|m| m.response_topic = Some("+".into())),
            "field response_topic: found \"+\", expected a topic name",
        ),
        (
            with(|m| m.content_type = Some("\0".into())),
            "field content_type: found \"\\0\", expected at most 65535 bytes without U+0000",
        ),
    ] {
        assert_eq!(found, expected);
    }
    let found = downlink("thing", &[("Content-Type", CONTENT_TYPE)], &[0xFF]);
    assert!(matches!(found, Err(Error::Protobuf(_))), "{found:?}");
}
