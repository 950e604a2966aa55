//! What a CONNECT gets: what is announced is what is enforced, and what cannot be honoured is refused.

use bytes::Bytes;

use super::*;
use crate::mqtt::{ConnectProperties, PublishProperties, QoS, TopicName, Will};

fn config() -> Config {
    Config {
        uplink_inflight_max: 3,
        keep_alive_max_s: 100,
        ..Config::default()
    }
}

/// A CONNECT that asks for nothing special.
pub(in crate::session) fn connect(version: Version) -> Connect {
    Connect {
        version,
        clean_start: true,
        keep_alive: 10,
        client_id: "c".into(),
        username: None,
        password: None,
        will: None,
        properties: ConnectProperties::default(),
    }
}

#[test]
fn connack_announces_what_is_unavailable_and_what_is_enforced() {
    let mut asked = connect(Version::V5);
    asked.keep_alive = 0;
    asked.properties.session_expiry_interval = Some(3_600);
    let agreement = agree(&asked, &config()).unwrap();
    let connack = &agreement.connack;
    let said = &connack.properties;
    assert_eq!(said.session_expiry_interval, None, "as asked for");
    assert_eq!(said.maximum_qos, None, "2");
    assert_eq!(said.retain_available, None, "it is");
    assert_eq!(said.shared_subscription_available, Some(false));
    assert_eq!(said.subscription_identifiers_available, None, "they are");
    assert_eq!(said.topic_alias_maximum, Some(10));
    assert_eq!(said.receive_maximum.map(NonZeroU16::get), Some(3));
    assert_eq!(said.server_keep_alive, Some(100), "the cap is announced");
    assert_eq!(agreement.keep_alive_s, 100, "and enforced");
    asked.keep_alive = 50;
    assert_eq!(
        agree(&asked, &config())
            .unwrap()
            .connack
            .properties
            .server_keep_alive,
        None
    );
}

#[test]
fn a_connect_that_cannot_be_honoured_is_refused() {
    let mut empty = connect(Version::V3_1_1);
    empty.client_id = "".into();
    empty.clean_start = false;
    // [MQTT-3.1.3-8]
    assert_eq!(
        agree(&empty, &config()),
        Err(ReasonCode::ClientIdentifierNotValid)
    );
    // [MQTT-3.2.2-6]
    let refusal = refusal(ReasonCode::Banned);
    assert!(!refusal.session_present);
}

#[test]
fn a_will_of_qos_2_that_is_retained_is_accepted() {
    let mut with_will = connect(Version::V5);
    with_will.will = Some(Will {
        topic: TopicName::try_from(bytestring::ByteString::from("will")).unwrap(),
        payload: Bytes::new(),
        qos: QoS::ExactlyOnce,
        retain: true,
        delay_interval: 0,
        properties: PublishProperties::default(),
    });
    assert!(agree(&with_will, &config()).is_ok());
}

#[test]
fn shared_subscriptions_are_announced_as_unavailable_where_they_are() {
    let open = Config {
        shared_subscriptions: true,
        ..config()
    };
    let said = agree(&connect(Version::V5), &open)
        .unwrap()
        .connack
        .properties;
    assert_eq!(said.shared_subscription_available, None);
}

#[test]
fn a_session_outlives_its_connection_as_asked_up_to_the_limit() {
    let limit = 1_000;
    let config = Config {
        session_expiry_max_s: limit,
        ..config()
    };
    let (v3, v5) = (Version::V3_1_1, Version::V5);
    for (version, clean_start, asked, granted, announced) in [
        (v5, true, None, 0, None),
        (v5, true, Some(0), 0, None),
        (v5, true, Some(60), 60, None),
        (v5, false, Some(limit), limit, None),
        (v5, false, Some(limit + 1), limit, Some(limit)),
        (v5, false, Some(u32::MAX), limit, Some(limit)),
        (v3, true, None, 0, None),
        (v3, false, None, limit, None),
    ] {
        let mut asking = connect(version);
        asking.clean_start = clean_start;
        asking.properties.session_expiry_interval = asked;
        let agreement = agree(&asking, &config).unwrap();
        assert_eq!(agreement.session_expiry_s, granted, "{version} {asked:?}");
        assert_eq!(agreement.clean_start, clean_start);
        if version == v5 {
            let said = agreement.connack.properties.session_expiry_interval;
            assert_eq!(said, announced, "{asked:?}");
        }
    }
}

#[test]
fn any_maximum_packet_size_is_taken() {
    // [MQTT-3.1.2-24]
    for (asked, agreed) in [(None, u32::MAX), (NonZeroU32::new(1), 1)] {
        let mut asking = connect(Version::V5);
        asking.properties.maximum_packet_size = asked;
        let agreement = agree(&asking, &config()).unwrap();
        assert_eq!(agreement.downlink_packet_bytes_max, agreed);
    }
}
