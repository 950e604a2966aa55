//! What a CONNECT gets: what is announced is what is enforced, and what cannot be honoured is refused.

use bytes::Bytes;

use super::*;
use crate::mqtt::{ConnectProperties, PublishProperties, TopicName, Will};

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
    // [MQTT-3.2.2-2], [MQTT-3.2.2-12], [MQTT-3.2.2-13] are kept by what stands here and by the refusals below.
    assert!(!connack.session_present);
    let said = &connack.properties;
    assert_eq!(said.session_expiry_interval, Some(0));
    assert_eq!(said.maximum_qos, Some(QoS::AtLeastOnce));
    assert_eq!(said.retain_available, Some(false));
    assert_eq!(said.shared_subscription_available, Some(false));
    assert_eq!(said.subscription_identifiers_available, None, "they are");
    assert_eq!(said.topic_alias_maximum, Some(16));
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
    let mut enhanced = connect(Version::V5);
    enhanced.properties.authentication_method = Some("SCRAM-SHA-256".into());
    assert_eq!(
        agree(&enhanced, &config()),
        Err(ReasonCode::BadAuthenticationMethod)
    );
    for (qos, retain, reason) in [
        (QoS::ExactlyOnce, false, ReasonCode::QoSNotSupported), // [MQTT-3.2.2-12]
        (QoS::AtLeastOnce, true, ReasonCode::RetainNotSupported), // [MQTT-3.2.2-13]
    ] {
        let mut with_will = connect(Version::V5);
        with_will.will = Some(Will {
            topic: TopicName::try_from(bytestring::ByteString::from("will")).unwrap(),
            payload: Bytes::new(),
            qos,
            retain,
            delay_interval: 0,
            properties: PublishProperties::default(),
        });
        assert_eq!(agree(&with_will, &config()), Err(reason));
    }
    // [MQTT-3.2.2-6]
    let refusal = refusal(ReasonCode::Banned);
    assert!(!refusal.session_present);
}
