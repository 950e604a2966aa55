//! What RETAIN does, and what a new subscriber gets of it.

use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message as _;

use super::*;
use crate::device::DeviceId;
use crate::mapping::{CONTENT_TYPE, DeviceMessage, Profile, Receipt, Settings, Uplink};
use crate::mqtt::{Publish, PublishProperties, QoS};

static OPEN: LazyLock<Mapping> = LazyLock::new(|| {
    let settings = Settings {
        profile: Profile::Open,
        ..Settings::default()
    };
    Mapping::load(&settings, None).unwrap()
});

fn uplink(topic: &str, retain: bool, payload: &'static [u8], expiry_s: Option<u32>) -> Uplink {
    let publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain,
        topic: topic.into(),
        packet_id: None,
        properties: PublishProperties {
            message_expiry_interval: expiry_s,
            ..PublishProperties::default()
        },
        payload: Bytes::from_static(payload),
    };
    let receipt = Receipt {
        id: "run.1.1",
        received_ms: 1_000,
        traceparent: "t",
    };
    let address = OPEN.address(topic).unwrap();
    let client = DeviceId::open("cl/1").unwrap();
    OPEN.uplink(&client, &address, &publish, &receipt).unwrap()
}

#[test]
fn retain_sets_and_an_empty_payload_clears() {
    // [MQTT-3.3.1-5], [MQTT-3.3.1-6]
    assert_eq!(uplink("a/b", false, b"x", None).retained, None);
    let set = uplink("a/b", true, b"x", Some(60));
    let kept = set.retained.unwrap();
    assert_eq!(kept.subject, "$KV.jetway_retained.mqtt.a.b");
    assert_eq!(kept.headers.get("Nats-TTL"), Some("60"));
    assert_eq!(kept.headers.get("Jw-Id"), Some("run.1.1"));
    assert_eq!(kept.headers.get("Nats-Msg-Id"), None);
    assert_eq!(set.message.headers.get("Jw-Retain"), Some("1"));
    assert_eq!(set.message.headers.get("Nats-TTL"), None);
    let cleared = uplink("a/b", true, b"", Some(60)).retained.unwrap();
    assert_eq!(cleared.subject, "$KV.jetway_retained.mqtt.a.b");
    assert_eq!(
        (&*cleared.payload, cleared.headers.get("Nats-TTL")),
        (&b""[..], None)
    );
}

#[test]
fn a_subscriber_gets_what_was_retained() {
    // [MQTT-3.3.1-8]
    let mut kept = uplink("a//ü.", true, b"x", Some(60)).retained.unwrap();
    let key = OPEN.retained_filters("a/+/#").unwrap();
    assert_eq!(
        key,
        [
            "$KV.jetway_retained.mqtt.a.*",
            "$KV.jetway_retained.mqtt.a.*.>"
        ]
    );
    kept.headers.push("Nats-Sequence", "7");
    let read = OPEN.retained(&kept).unwrap().unwrap();
    assert_eq!((read.topic.as_str(), read.retain), ("a//ü.", true));
    assert_eq!(read.publisher.as_deref(), Some("cl/1"));
    assert_eq!(read.expires.map(|expires| expires.unix_ms), Some(61_000));
    kept.payload = Bytes::new();
    assert_eq!(OPEN.retained(&kept), Ok(None));
}

static DEVICE: LazyLock<Mapping> =
    LazyLock::new(|| Mapping::load(&Settings::default(), None).unwrap());

/// What a service published, as the feed has it: stored at 1,000 s.
fn stored(subject: &str, headers: &[(&'static str, &str)], payload: &'static str) -> Message {
    let mut message = Message {
        subject: subject.into(),
        headers: Headers::default(),
        payload: payload.into(),
    };
    let servers = [
        ("Nats-Subject", subject),
        ("Nats-Sequence", "7"),
        ("Nats-Time-Stamp", "1970-01-01T00:16:40Z"),
    ];
    for (name, value) in servers.iter().chain(headers) {
        message.headers.push(*name, *value);
    }
    message
}

const STORED_AT_MS: u64 = 1_000_000;

fn copied(mapping: &Mapping, message: &Message) -> Option<Message> {
    mapping
        .retained_copy(message, STORED_AT_MS, STORED_AT_MS)
        .unwrap()
}

/// As it is read back.
fn read(mapping: &Mapping, copy: &Message) -> Downlink {
    let mut message = stored(&copy.subject, &[], "");
    for (name, value) in copy.headers.iter() {
        message.headers.push(name, value);
    }
    message.payload = copy.payload.clone();
    mapping.retained(&message).unwrap().unwrap()
}

#[test]
fn each_topic_of_a_device_has_its_own_key_which_its_filters_select() {
    let matches = |filter: &str, key: &str| {
        let (mut filter, mut key) = (filter.split('.'), key.split('.'));
        filter
            .by_ref()
            .zip(key.by_ref())
            .all(|(f, k)| f == "*" || f == k)
            && (filter.next(), key.next()) == (None, None)
    };
    let devices = [("P", "D"), ("P", "D.x"), ("P.D", "x"), ("P%", "*")];
    let heads = [
        "$thing/down/property",
        "$thing/down/property/extra",
        "$thing/down/a.b",
        "$thing/down/a%2Eb",
        "$thing/down/a/b",
        "$thing/down/*",
        "$ota/down/property",
    ];
    let mut kept: Vec<(Subject, Subject)> = Vec::new();
    for (product, name) in devices {
        let id = DeviceId::new(product, name).unwrap();
        for head in heads {
            let topic = format!("{head}/{product}/{name}");
            let handle = head.split(['$', '/']).nth(1).unwrap();
            let tokens = Mapping::device_tokens(&id);
            let subject = format!("device.down.mqtt.{handle}.{tokens}");
            let value = header::value(&topic.as_str().into());
            let headers = [("Jw-Retain", "1"), ("Jw-Topic", &*value)];
            let copy = copied(&DEVICE, &stored(&subject, &headers, "x")).unwrap();
            let found = read(&DEVICE, &copy);
            assert_eq!((&*found.topic, found.retain), (&*topic, true));
            let own = DEVICE.retained_filters(&topic).unwrap();
            assert_eq!(own, std::slice::from_ref(&copy.subject));
            let wild = format!("${handle}/down/+/{product}/{name}");
            let mut wild = DEVICE.retained_filters(&wild).unwrap();
            assert_eq!(wild.len(), 1);
            kept.push((wild.remove(0), copy.subject));
        }
    }
    for (at, (filter, key)) in kept.iter().enumerate() {
        for (other, (its_filter, its_key)) in kept.iter().enumerate() {
            assert_eq!(key == its_key, at == other, "{key}");
            // All of a device and handle, and of no other.
            assert_eq!(matches(filter, its_key), filter == its_filter, "{filter}");
        }
    }
}

#[test]
fn what_a_service_retains_is_kept_without_what_is_for_the_message_alone() {
    // [MQTT-3.3.1-5]
    let headers = [
        ("Jw-Retain", "1"),
        ("Jw-Type", "event"),
        ("Jw-Receipt", "receipts"),
        ("Jw-Sequence", "99"),
        ("Jw-Stored-Ms", "99"),
        ("Jw-User-a", "1"),
        ("Nats-Msg-Id", "theirs"),
        ("Nats-Rollup", "all"),
        ("nats-expected-last-sequence", "3"),
        ("KV-Operation", "PURGE"),
        ("Nats-TTL", "1m"),
    ];
    let subject = "device.down.mqtt.thing.P.D";
    let copy = copied(&DEVICE, &stored(subject, &headers, "x")).unwrap();
    let key = "$KV.jetway_retained.device.down.mqtt.thing.P.D.$thing/down/event/P/D";
    assert_eq!((&*copy.subject, &*copy.payload), (key, &b"x"[..]));
    let expected = [
        ("Jw-Retain", "1"),
        ("Jw-Type", "event"),
        ("Jw-User-a", "1"),
        ("Jw-Sequence", "7"),
        ("Jw-Stored-Ms", "1000000"),
        ("Jw-Expires", "1059000"),
        ("Nats-TTL", "59"),
    ];
    assert_eq!(copy.headers.iter().collect::<Vec<_>>(), expected);
    let expires = read(&DEVICE, &copy).expires.unwrap();
    assert_eq!(expires.unix_ms, 1_059_000);
}

#[test]
fn without_payload_or_lifetime_it_is_a_removal() {
    // [MQTT-3.3.1-6]
    let envelope = DeviceMessage {
        retain: true,
        ..DeviceMessage::default()
    };
    let subject = "device.down.mqtt.thing.P.D";
    let mut enveloped = stored(subject, &[("Content-Type", CONTENT_TYPE)], "");
    enveloped.payload = envelope.encode_to_vec().into();
    let retain = ("Jw-Retain", "1");
    for (message, what) in [
        (stored(subject, &[retain, ("Nats-TTL", "60")], ""), "empty"),
        (
            stored(subject, &[retain, ("Jw-Expires", "1000000")], "x"),
            "over",
        ),
        (enveloped, "empty in its envelope"),
    ] {
        let copy = copied(&DEVICE, &message).unwrap();
        assert!(copy.payload.is_empty(), "{what}");
        assert_eq!(copy.headers.get("Nats-TTL"), None, "{what}");
        assert_eq!(copy.headers.get("Jw-Sequence"), Some("7"), "{what}");
    }
}

#[test]
fn only_what_a_service_wants_retained_is() {
    let thing = "device.down.mqtt.thing.P.D";
    for headers in [
        &[][..],
        &[("Jw-Retain", "0")],
        &[("Content-Type", CONTENT_TYPE)],
    ] {
        assert_eq!(copied(&DEVICE, &stored(thing, headers, "")), None);
    }
    let retain = ("Jw-Retain", "1");
    let of_client = stored("mqtt.a", &[retain, ("Jw-Client", "c")], "x");
    assert_eq!(copied(&OPEN, &of_client), None);
    let copy = copied(&OPEN, &stored("mqtt.a.%", &[retain], "x")).unwrap();
    assert_eq!(copy.subject, "$KV.jetway_retained.mqtt.a.%");
    let found = read(&OPEN, &copy);
    assert_eq!((&*found.topic, found.publisher), ("a/", None));
    let wrong = stored(thing, &[retain, ("Jw-Qos", "3")], "x");
    assert!(DEVICE.retained_copy(&wrong, 1, 1).is_err());
    let long = format!("$thing/down/{}/P/D", "x".repeat(2_048));
    let long = stored(thing, &[retain, ("Jw-Topic", &long)], "x");
    let refused = DEVICE.retained_copy(&long, 1, 1);
    assert!(
        matches!(refused, Err(Error::SubjectTooLong(_))),
        "{refused:?}"
    );
}

#[test]
fn a_copy_replaces_what_is_older_and_nothing_else() {
    let copy = |sequence: &str, stored_ms: &str| {
        let headers = [("Jw-Sequence", sequence), ("Jw-Stored-Ms", stored_ms)];
        Message {
            headers: stored("", &headers, "").headers,
            ..stored("", &[], "")
        }
    };
    let own = copy("5", "100");
    // Copies are written after their messages: that says nothing.
    for (last, replaces) in [
        (copy("4", "100"), true),
        (copy("4", "99"), true),
        (copy("5", "100"), false),
        (copy("6", "100"), false),
        (copy("6", "101"), false),
        // The stream began anew.
        (copy("9", "50"), true),
    ] {
        let found = Mapping::replaces_retained(&own, &last, 1_000);
        assert_eq!(found, replaces, "{last:?}");
    }
    let of_client = stored("", &[], "");
    assert!(Mapping::replaces_retained(&own, &of_client, 99));
    assert!(!Mapping::replaces_retained(&own, &of_client, 101));
    let over = stored("", &[("Nats-Marker-Reason", "MaxAge")], "");
    assert!(Mapping::replaces_retained(&own, &over, 101));
}
