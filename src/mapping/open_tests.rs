//! The open profile as a whole, and what is delivered and subscribed to in both.

use std::sync::LazyLock;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::mapping::{Downlink, Error, Receipt, Uplink};
use crate::message::{Headers, Message};
use crate::mqtt::{Publish, PublishProperties, QoS};

static DEVICE: LazyLock<Mapping> = LazyLock::new(|| load(Profile::Device, "").unwrap());
static OPEN: LazyLock<Mapping> = LazyLock::new(|| load(Profile::Open, "").unwrap());

fn load(profile: Profile, extra: &str) -> Result<Mapping, Vec<String>> {
    let settings = Settings {
        profile,
        ..Settings::default()
    };
    let loaded = Mapping::load(&settings, Some(("own.toml", extra)));
    loaded.map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn publish(topic: &str) -> Publish {
    Publish {
        dup: false,
        qos: QoS::ExactlyOnce,
        retain: false,
        topic: topic.into(),
        packet_id: None,
        properties: PublishProperties::default(),
        payload: Bytes::from_static(b"x"),
    }
}

fn uplink(client_id: &str, publish: &Publish) -> Result<Uplink, Error> {
    let address = OPEN.address(&publish.topic).unwrap();
    let receipt = Receipt {
        id: "run.1.1",
        received_ms: 1_000,
        traceparent: "t",
    };
    let client = DeviceId::open(client_id).unwrap();
    OPEN.uplink(&client, &address, publish, &receipt)
}

/// As the reader of the stream gives a stored message to the mapping.
fn read_back(mut stored: Message) -> Result<Downlink, Error> {
    stored.headers.push("Nats-Subject", &stored.subject);
    stored.headers.push("Nats-Sequence", "7");
    OPEN.downlink(&stored)
}

#[test]
fn what_is_delivered_and_where_uplinks_go() {
    let delivered = |mapping: &Mapping| {
        let Delivery { stream, filters } = mapping.delivery.clone();
        (
            stream.to_string(),
            filters.join(" "),
            mapping.uplink_streams().join(" "),
        )
    };
    let named = |texts: [&str; 3]| {
        (
            texts[0].to_owned(),
            texts[1].to_owned(),
            texts[2].to_owned(),
        )
    };
    let device = ["DEVICE_DOWN", "device.down.mqtt.*.*.*", "DEVICE_UP"];
    assert_eq!(delivered(&DEVICE), named(device));
    assert_eq!(delivered(&OPEN), named(["MQTT", "mqtt.>", "MQTT"]));
}

#[test]
fn each_profile_has_its_streams_and_both_have_the_gateways() {
    let names = |mapping: &Mapping| {
        let names = mapping.streams.iter().map(|stream| stream.name.clone());
        names.collect::<Vec<_>>()
    };
    let gateways = [
        "DEVICE_STATUS",
        "APPLICATION",
        "DLQ",
        "KV_jetway_sessions",
        "KV_jetway_retained",
        "KV_jetway_nodes",
        "KV_jetway_durables",
        "JETWAY_ADVISORIES",
    ];
    assert_eq!(names(&OPEN), [&["MQTT"][..], &gateways].concat());
    let device = names(&DEVICE);
    assert!(device.ends_with(&gateways.map(str::to_owned)), "{device:?}");
    assert!(!device.contains(&"MQTT".to_owned()), "{device:?}");
}

#[test]
fn a_subscription_selects_subjects() {
    let thing = "device.down.mqtt.thing.P%2E1.D";
    for (filter, expected) in [
        ("$thing/down/+/P.1/D", Some(thing)),
        ("$thing/down/property/custom/P.1/D", Some(thing)),
        ("$rpc/down/17/P.1/D", Some("device.down.mqtt.rpc.P%2E1.D")),
        ("$thing/up/property/P.1/D", None),
        ("#", None),
    ] {
        let found = DEVICE.subscription(filter);
        assert_eq!(
            found,
            expected.map(|subject| vec![subject.into()]),
            "{filter}"
        );
    }
    let open = OPEN.subscription("$thing/down/+/#").unwrap();
    assert_eq!(open, ["mqtt.$thing.down.*", "mqtt.$thing.down.*.>"]);
}

#[test]
fn the_device_profile_retains_nothing_of_its_uplinks() {
    let publish = Publish {
        retain: true,
        ..publish("$thing/up/property/P/D")
    };
    let address = DEVICE.address(&publish.topic).unwrap();
    let receipt = Receipt {
        id: "i",
        received_ms: 1,
        traceparent: "t",
    };
    let id = DeviceId::new("P", "D").unwrap();
    let uplink = DEVICE.uplink(&id, &address, &publish, &receipt).unwrap();
    assert_eq!(uplink.retained, None);
    assert_eq!(uplink.message.headers.get("Jw-Retain"), Some("1"));
    assert_eq!(uplink.message.headers.get("Jw-Client"), None);
}

#[test]
fn a_topic_that_makes_too_long_a_subject_is_refused() {
    let dots = ".".repeat(400);
    assert_eq!(
        uplink("c", &publish(&dots)),
        Err(Error::SubjectTooLong(1_205))
    );
    assert_eq!(OPEN.subscription(&dots), None);
}

#[test]
fn a_service_sends_to_topics_and_may_ask_for_a_receipt() {
    let sent = |subject: &str, headers: &[(&'static str, &str)]| {
        let mut all = Headers::default();
        for (name, value) in headers {
            all.push(*name, *value);
        }
        read_back(Message {
            subject: subject.into(),
            headers: all,
            payload: Bytes::from_static(b"on"),
        })
    };
    let plain = sent("mqtt.lamp.%.set", &[]).unwrap();
    assert_eq!(
        (plain.topic.as_str(), plain.qos),
        ("lamp//set", QoS::AtLeastOnce)
    );
    assert_eq!((plain.receipt, plain.publisher), (None, None));
    // The protobuf form names a device, and is here a payload like others.
    let form = [("Content-Type", crate::mapping::CONTENT_TYPE)];
    assert_eq!(sent("mqtt.a", &form).unwrap().payload, "on");
    let asked = sent("mqtt.a", &[("Jw-Receipt", "_INBOX.a.1")]).unwrap();
    assert_eq!(asked.receipt.as_deref(), Some("_INBOX.a.1"));
    let gateways = [
        "$JS.API.STREAM.PURGE.MQTT",
        "mqtt.door",
        "device.down.x",
        "_jw.a",
    ];
    for wrong in ["", "a.*", ">", "a b", "a..b"].into_iter().chain(gateways) {
        let error = sent("mqtt.a", &[("Jw-Receipt", wrong)]).unwrap_err();
        assert!(
            error.to_string().starts_with("header Jw-Receipt"),
            "{error}"
        );
    }
    for nobodys in [
        "mqtt.a/b",
        "mqtt.a+",
        "mqtt.%",
        "mqtt",
        "device.down.mqtt.thing.P.D",
    ] {
        assert_eq!(sent(nobodys, &[]), Err(Error::Subject(nobodys.to_owned())));
    }
}

#[test]
fn rules_of_an_operator_that_cannot_be() {
    let rule = |direction: &str, mqtt: &str, nats: &str, stream: &str| {
        format!(
            "[[rule]]\nhandle = \"own\"\ndirection = \"{direction}\"\nmqtt = \"{mqtt}\"\nnats = \"{nats}\"\nstream = \"{stream}\"\n"
        )
    };
    let device = "device.down.{protocol}.{handle}.{product}.{device}";
    let together = "key `direction`: \"both\" goes with {levels...} in `mqtt` and `nats`";
    for (profile, rule, expected) in [
        // Every topic has a rule already.
        (
            Profile::Open,
            rule(
                "up",
                "own/{product}/{device}",
                "own.{product}.{device}",
                "DLQ",
            ),
            "own/{product}/{device} overlaps {levels...}",
        ),
        (
            Profile::Device,
            rule("both", "own/{product}/{device}", device, "DEVICE_DOWN"),
            together,
        ),
        (
            Profile::Device,
            rule("down", "{levels...}", device, "DEVICE_DOWN"),
            together,
        ),
        (
            Profile::Device,
            rule("down", "own/{product}/{device}", "dlq.{levels...}", "DLQ"),
            together,
        ),
        (
            Profile::Device,
            rule("both", "{levels...}", "dlq.{levels...}", "DLQ"),
            "{levels...} overlaps $thing",
        ),
        (
            Profile::Device,
            rule(
                "down",
                "own/{product}/{device}",
                "dlq.{product}.{device}",
                "DLQ",
            ),
            "expected the stream of all rules with direction = \"down\", \"DEVICE_DOWN\"",
        ),
        (
            Profile::Open,
            "[[stream]]\nname = \"MQTT\"\nsubjects = [\"mqtt.>\"]\n".to_owned(),
            "key `stream`: mqtt_held.*.*.* is not stored in MQTT",
        ),
    ] {
        let faults = load(profile, &rule).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{expected} in {faults:#?}"
        );
    }
}

proptest! {
    /// A subscriber gets what was published, through the stream.
    #[test]
    fn a_message_comes_back_as_it_was_published(
        topic in "[^+#\u{0}]{1,20}|[a/. %*>]{1,9}",
        client_id in "[^\u{0}]{1,20}",
        qos in 0..3_u8,
        retain: bool,
        pairs in prop::collection::vec(("[ab:%]?|traceparent|[^\u{0}]{0,9}", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01|[^\u{0}]{0,9}"), 0..6),
        payload_format in prop::option::of(0..2_u8),
        content_type in prop::option::of("[^\u{0}]{0,9}|application/vnd\\.jetway\\.x"),
        response_topic in prop::option::of("[^+#\u{0}]{1,9}"),
    ) {
        let published = Publish {
            qos: [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(qos)],
            retain,
            properties: PublishProperties {
                payload_format_indicator: payload_format,
                message_expiry_interval: Some(5),
                content_type: content_type.map(Into::into),
                response_topic: response_topic.map(Into::into),
                correlation_data: Some(Bytes::from_static(&[0, 255])),
                user: pairs.into_iter().collect(),
                ..PublishProperties::default()
            },
            payload: Bytes::from_static(&[0xFF]),
            ..publish(&topic)
        };
        let mut stored = uplink(&client_id, &published).unwrap();
        prop_assert_eq!(stored.retained.is_some(), retain);
        stored.message.headers = as_a_library_keeps_them(&stored.message.headers);
        let read = read_back(stored.message).unwrap();
        prop_assert_eq!(read.topic, topic);
        prop_assert_eq!((read.qos, read.retain), (published.qos, retain));
        prop_assert_eq!(read.publisher, Some(client_id));
        prop_assert_eq!(read.expires.and_then(|expires| expires.left(3_000)), Some(3));
        prop_assert_eq!(read.payload, published.payload);
        let mut properties = read.properties;
        properties.message_expiry_interval = Some(5);
        // [MQTT-3.3.2-17], [MQTT-3.3.2-18]
        prop_assert_eq!(properties, published.properties);
    }
}

/// Grouped by name, names in any order.
fn as_a_library_keeps_them(headers: &Headers) -> Headers {
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut kept = Headers::default();
    for (name, value) in sorted {
        kept.push(name, value);
    }
    kept
}
