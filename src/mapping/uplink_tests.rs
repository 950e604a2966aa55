//! PUBLISH packets to stored messages: subject, headers, forms.

use std::num::NonZeroU16;
use std::sync::LazyLock;

use super::*;
use crate::mapping::{DeviceMessage, Settings, Tree};
use crate::mqtt::QoS;
use async_nats::HeaderMap;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const DEVICE_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn publish(topic: &str, properties: PublishProperties) -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: None,
        properties,
        payload: Bytes::from_static(b"{}"),
    }
}

static MAPPING: LazyLock<Mapping> =
    LazyLock::new(|| Mapping::load(&Settings::default(), None).unwrap());

fn uplink(settings: &Settings, publish: &Publish) -> Result<Uplink, Error> {
    uplink_by(&Mapping::load(settings, None).unwrap(), publish)
}

fn uplink_by(mapping: &Mapping, publish: &Publish) -> Result<Uplink, Error> {
    let address = mapping.address(&publish.topic).expect("a topic of ours");
    let id = DeviceId::new(address.product, address.name).unwrap();
    let receipt = Receipt {
        id: "c1-7",
        received_ms: 1_754_000_000_123,
        traceparent: TRACE,
    };
    mapping.uplink(&id, &address, publish, &receipt)
}

fn headers(publish: &Publish) -> Vec<(String, String)> {
    let message = uplink_by(&MAPPING, publish).unwrap().message;
    let mut nats = HeaderMap::new();
    for (name, value) in message.headers.iter() {
        nats.append(name, value); // panics on what breaks framing
    }
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    message.headers.iter().map(owned).collect()
}

/// The headers behind those that every message has.
fn check(properties: PublishProperties, expected: &[(&str, &str)]) {
    let found = headers(&publish("$thing/up/property/P/D", properties));
    let found: Vec<_> = found
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(found[6..], *expected);
}

#[test]
fn a_property_report() {
    let publish = publish("$thing/up/property/P.1/D", PublishProperties::default());
    let uplink = uplink(&Settings::default(), &publish).unwrap();
    assert_eq!(uplink.message.subject, "device.up.mqtt.thing.P%2E1.D");
    assert_eq!(uplink.live.unwrap(), "device.up.thing.P%2E1.D");
    assert_eq!(uplink.message.payload.as_ptr(), publish.payload.as_ptr());
    let found: Vec<_> = uplink.message.headers.iter().collect();
    let expected = [
        ("Jw-Id", "c1-7"),
        ("Nats-Msg-Id", "c1-7"),
        ("Jw-Ts", "1754000000123"),
        ("traceparent", TRACE),
        ("Jw-Type", "property"),
        ("Jw-Qos", "1"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_topic_goes_along_where_the_rule_does_not_determine_it() {
    for (topic, kind, carried) in [
        ("$thing/up/event/P/D", Some("event"), false),
        ("$thing/up/property/custom/P/D", Some("property"), true),
        ("$rpc/up/17/P/D", None, true),
    ] {
        let headers = headers(&publish(topic, PublishProperties::default()));
        let get = |name| {
            headers
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| &**value)
        };
        assert_eq!(get("Jw-Topic"), carried.then_some(topic));
        assert_eq!(get("Jw-Type"), kind);
    }
}

#[test]
fn what_is_stored_and_what_is_live() {
    let live = |handles: &[&str]| handles.iter().map(|handle| (*handle).to_owned()).collect();
    for (tree, handles, topic, stored, copy) in [
        (
            Tree::Protocol,
            live(&["thing"]),
            "$thing/up/x/P/D",
            "device.up.mqtt.thing.P.D",
            Some("device.up.thing.P.D"),
        ),
        (
            Tree::Protocol,
            live(&["thing"]),
            "$ota/up/x/P/D",
            "device.up.mqtt.ota.P.D",
            None,
        ),
        (
            Tree::Handle,
            live(&["thing"]),
            "$thing/up/x/P/D",
            "device.up.thing.P.D",
            None,
        ),
        (
            Tree::Handle,
            live(&[]),
            "$rpc/up/x/P/D",
            "device.up.rpc.P.D",
            None,
        ),
    ] {
        let settings = Settings {
            tree,
            live: handles,
            ..Settings::default()
        };
        let uplink = uplink(&settings, &publish(topic, PublishProperties::default())).unwrap();
        assert_eq!(uplink.message.subject, stored);
        assert_eq!(uplink.live.as_deref(), copy);
    }
    let uplink = uplink(
        &Settings::default(),
        &publish("$rpc/up/1/P/D", PublishProperties::default()),
    );
    assert_eq!(uplink.unwrap().live, None);
}

#[test]
fn mqtt5_properties_are_headers() {
    // G40
    check(
        PublishProperties {
            payload_format_indicator: Some(1),
            message_expiry_interval: Some(60),
            topic_alias: NonZeroU16::new(3),
            response_topic: Some("answers/here".into()),
            correlation_data: Some(Bytes::from_static(&[0, 255])),
            content_type: Some("application/json".into()),
            user: [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect(),
            ..PublishProperties::default()
        },
        &[
            ("Content-Type", "application/json"),
            ("Jw-Payload-Format", "1"),
            ("Jw-Expires", "1754000060123"),
            ("Jw-Response-Topic", "answers/here"),
            ("Jw-Correlation", "AP8="),
            ("Jw-User-b", "1"),
            ("Jw-User-a", "2"),
            ("Jw-User-b", "3"),
        ],
    );
}

#[test]
fn a_device_sets_no_header_of_ours() {
    let names = [
        "Jw-Id",
        "Nats-Msg-Id",
        "Nats-Expected-Stream",
        "Nats-Rollup",
        "Content-Type",
        "x\r\nNats-TTL: 1",
    ];
    let user = names.map(|name| (name, "x\r\nNats-Msg-Id: y"));
    let value = "x%0D%0ANats-Msg-Id: y";
    check(
        PublishProperties {
            user: user.into_iter().collect(),
            content_type: Some("application/vnd.jetway.device-message.v1+protobuf".into()),
            ..PublishProperties::default()
        },
        &[
            (
                "Content-Type",
                "%61pplication/vnd.jetway.device-message.v1+protobuf",
            ),
            ("Jw-User-Jw-Id", value),
            ("Jw-User-Nats-Msg-Id", value),
            ("Jw-User-Nats-Expected-Stream", value),
            ("Jw-User-Nats-Rollup", value),
            ("Jw-User-Content-Type", value),
            ("Jw-User-x%0D%0ANats-TTL%3A%201", value),
        ],
    );
}

#[test]
fn a_valid_trace_context_of_the_device_is_continued() {
    let headers = |user: &[(&str, &str)]| {
        let user = user.iter().copied().collect();
        headers(&publish(
            "$thing/up/x/P/D",
            PublishProperties {
                user,
                ..PublishProperties::default()
            },
        ))
    };
    let found = headers(&[("traceparent", DEVICE_TRACE), ("traceparent", DEVICE_TRACE)]);
    assert_eq!(
        found[3],
        ("traceparent".to_owned(), DEVICE_TRACE.to_owned())
    );
    // Only the one that was moved is gone.
    assert_eq!(
        found[6..],
        [("Jw-User-traceparent".to_owned(), DEVICE_TRACE.to_owned())]
    );
    let found = headers(&[("traceparent", "nonsense")]);
    assert_eq!(found[3], ("traceparent".to_owned(), TRACE.to_owned()));
    assert_eq!(
        found[6..],
        [("Jw-User-traceparent".to_owned(), "nonsense".to_owned())]
    );
}

#[test]
fn the_protobuf_form() {
    let settings = Settings {
        forms: [("thing".to_owned(), Form::Protobuf)].into(),
        ..Settings::default()
    };
    let properties = PublishProperties {
        user: [("a", "1\r\n"), ("traceparent", DEVICE_TRACE)]
            .into_iter()
            .collect(),
        content_type: Some(envelope::CONTENT_TYPE.into()),
        correlation_data: Some(Bytes::new()),
        message_expiry_interval: Some(1),
        payload_format_indicator: Some(0),
        ..PublishProperties::default()
    };
    let message = uplink(
        &settings,
        &publish("$thing/up/property/custom/P/D.1", properties),
    )
    .unwrap()
    .message;
    let headers: Vec<_> = message.headers.iter().collect();
    let expected = [
        ("Jw-Id", "c1-7"),
        ("Nats-Msg-Id", "c1-7"),
        ("Jw-Ts", "1754000000123"),
        ("traceparent", DEVICE_TRACE),
        ("Content-Type", envelope::CONTENT_TYPE),
    ];
    assert_eq!(headers, expected);
    let expected = DeviceMessage {
        id: "c1-7".to_owned(),
        handle: "thing".to_owned(),
        r#type: "property".to_owned(),
        product_id: "P".to_owned(),
        device_name: "D.1".to_owned(),
        topic: "$thing/up/property/custom/P/D.1".to_owned(),
        received_at_ms: 1_754_000_000_123,
        qos: Some(1),
        retain: false,
        traceparent: DEVICE_TRACE.to_owned(),
        payload: Bytes::from_static(b"{}"),
        content_type: Some(envelope::CONTENT_TYPE.to_owned()),
        response_topic: None,
        correlation_data: Some(Bytes::new()),
        payload_format: Some(0),
        expires_at_ms: Some(1_754_000_001_123),
        user_properties: vec![envelope::UserProperty {
            name: "a".to_owned(),
            value: "1\r\n".to_owned(),
        }],
    };
    assert_eq!(DeviceMessage::decode(message.payload).unwrap(), expected);
}

#[test]
fn what_cannot_be_sent_is_an_error() {
    let settings = Settings::default();
    let mapping = Mapping::load(&settings, None).unwrap();
    let receipt = Receipt {
        id: "c1-7",
        received_ms: 0,
        traceparent: TRACE,
    };
    let id = DeviceId::new("P", "D").unwrap();
    let address = mapping.address("$thing/up/property/P/D").unwrap();
    for topic in [
        "$thing/up/property/P/E",
        "$thing/down/property/P/D",
        "$ota/up/report/P/D",
        "x",
        "",
    ] {
        let publish = publish(topic, PublishProperties::default());
        let found = mapping.uplink(&id, &address, &publish, &receipt);
        assert_eq!(found, Err(Error::Unmapped(topic.to_owned())));
    }
    let user = [("a".repeat(40_000), "b".repeat(30_000))]
        .into_iter()
        .collect();
    let large = publish(
        "$thing/up/property/P/D",
        PublishProperties {
            user,
            ..PublishProperties::default()
        },
    );
    let error = uplink(&settings, &large).unwrap_err();
    assert_eq!(
        error.to_string(),
        "headers have 70166 bytes, expected at most 64512"
    );
    let long = "a".repeat(1000);
    let rule = format!(
        "[[rule]]\nhandle = \"own\"\ndirection = \"up\"\nmqtt = \"own/{{product}}/{{device}}\"\n\
         nats = \"application.{long}.{{product}}.{{device}}\"\nstream = \"APPLICATION\"\n"
    );
    let mapping = Mapping::load(&settings, Some(("own.toml", &rule))).unwrap();
    let id = DeviceId::new("......", "D").unwrap();
    let publish = publish("own/....../D", PublishProperties::default());
    let address = mapping.address(&publish.topic).unwrap();
    let error = mapping
        .uplink(&id, &address, &publish, &receipt)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "subject has 1033 bytes, expected at most 1024"
    );
}

proptest! {
    #[test]
    fn whatever_a_device_sends_is_safe_for_nats(
        kind in "[^/+#\u{0}]{1,12}",
        product in "[^/+#\u{0}]{1,12}",
        name in "[^/+#\u{0}]{1,12}",
        pairs in prop::collection::vec(("(?s).{0,12}", "(?s).{0,12}"), 0..4),
        content_type in "(?s).{0,12}",
    ) {
        let properties = PublishProperties {
            content_type: Some(content_type.into()),
            user: pairs.iter().cloned().collect(),
            ..PublishProperties::default()
        };
        let publish = publish(&format!("$thing/up/{kind}/x/{product}/{name}"), properties);
        let found = headers(&publish);
        let ours = found.iter().filter(|(name, _)| name.starts_with("Nats-") || name == "Jw-Id");
        prop_assert_eq!(ours.count(), 2);
        let user = found.iter().filter_map(|(name, value)| Some((name.strip_prefix(header::USER)?, value)));
        let user = user.map(|(name, value)| (header::text(name).into_owned(), header::text(value).into_owned()));
        prop_assert_eq!(user.collect::<Vec<_>>(), pairs);
        let subject = uplink_by(&MAPPING, &publish).unwrap().message.subject;
        prop_assert_eq!(subject.split('.').count(), 6);
        prop_assert!(subject.bytes().all(|byte| byte > b' ' && !matches!(byte, b'*' | b'>' | 0x7F)));
    }
}
