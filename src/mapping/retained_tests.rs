//! What RETAIN does, and what a new subscriber gets of it.

use std::sync::LazyLock;

use bytes::Bytes;

use super::*;
use crate::device::DeviceId;
use crate::mapping::{Profile, Receipt, Settings, Uplink};
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
    let Some(Retained::Set(kept)) = set.retained else {
        panic!("{set:?}");
    };
    assert_eq!(kept.subject, "$KV.jetway_retained.mqtt.a.b");
    assert_eq!(kept.headers.get("Nats-TTL"), Some("60"));
    assert_eq!(kept.headers.get("Jw-Id"), Some("run.1.1"));
    assert_eq!(kept.headers.get("Nats-Msg-Id"), None);
    assert_eq!(set.message.headers.get("Jw-Retain"), Some("1"));
    assert_eq!(set.message.headers.get("Nats-TTL"), None);
    let cleared = uplink("a/b", true, b"", None).retained;
    let key = Subject::from_static("$KV.jetway_retained.mqtt.a.b");
    assert_eq!(cleared, Some(Retained::Clear(key)));
}

#[test]
fn a_subscriber_gets_what_was_retained() {
    // [MQTT-3.3.1-8]
    let Some(Retained::Set(mut kept)) = uplink("a//ü.", true, b"x", Some(60)).retained else {
        panic!("set");
    };
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

#[test]
fn keys_are_read_back() {
    let key = Mapping::retained_key("mqtt.a");
    assert_eq!(Mapping::retained_subject(&key), Some("mqtt.a"));
    assert_eq!(Mapping::retained_subject("mqtt.a"), None);
}
