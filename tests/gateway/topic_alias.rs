//! Topic aliases both ways: an alias is its topic in every respect, and beyond what was announced there is none.

use crate::site::{Registered, Site};
use crate::support::{Protocol, Wire, packet};

/// Of the gateway, in CONNACK.
const TOPIC_ALIAS_MAXIMUM: u16 = 10;

async fn login(site: &Site, who: &Registered) -> Wire {
    Wire::login(Protocol::V5, site.gateway.mqtt(), &who.credentials, 60).await
}

/// A PUBLISH with QoS 1 and a topic alias.
fn publish(topic: &str, packet_id: u16, alias: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = packet::string(topic);
    body.extend(packet_id.to_be_bytes());
    body.extend([3, 0x23]);
    body.extend(alias.to_be_bytes());
    body.extend(payload);
    packet::packet(0x32, &body)
}

#[tokio::test]
async fn an_alias_is_its_topic_in_every_respect() {
    // [MQTT-3.3.2-12]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let (who, other) = (site.device(), site.device());
    let mut wire = login(&site, &who).await;
    let sent = [
        (who.reports(), TOPIC_ALIAS_MAXIMUM, 0),
        (String::new(), TOPIC_ALIAS_MAXIMUM, 0),
        (other.reports(), 1, 0x87),
        // The alias is set although the message was denied, and permission is asked for the topic.
        (String::new(), 1, 0x87),
        (who.topic("$thing/up/event"), 1, 0),
        (String::new(), 1, 0),
        (String::new(), TOPIC_ALIAS_MAXIMUM, 0),
    ];
    for (packet_id, (topic, alias, reason)) in (1..).zip(&sent) {
        let payload = packet_id.to_string();
        wire.send(&publish(topic, packet_id, *alias, payload.as_bytes()))
            .await;
        let puback = wire.packet().await.unwrap();
        assert_eq!(puback[2..4], packet_id.to_be_bytes());
        assert_eq!(puback.get(4).copied().unwrap_or(0), *reason, "{packet_id}");
    }
    let stored = who.stored(&backend).await;
    let stored: Vec<_> = stored
        .iter()
        .map(|message| (message.text(), message.header("Jw-Type")))
        .collect();
    let expected = [
        ("1", "property"),
        ("2", "property"),
        ("5", "event"),
        ("6", "event"),
        ("7", "property"),
    ];
    assert_eq!(stored, expected);
    assert!(other.stored(&backend).await.is_empty());
}

#[tokio::test]
async fn an_alias_beyond_the_maximum_or_unknown_ends_the_connection() {
    // G09 [MQTT-3.3.2-7], [MQTT-3.3.2-8], [MQTT-3.3.2-9]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let reports = who.reports();
    for (topic, alias, reason) in [
        (&*reports, TOPIC_ALIAS_MAXIMUM + 1, 0x94),
        (&*reports, 0, 0x94),
        ("", TOPIC_ALIAS_MAXIMUM, 0x82),
    ] {
        let mut wire = login(&site, &who).await;
        wire.send(&publish(topic, 1, alias, b"wrong")).await;
        assert_eq!(wire.closed().await, packet::disconnect(reason), "{alias}");
    }
    assert!(who.stored(&backend).await.is_empty());
}

#[tokio::test]
async fn a_device_that_takes_aliases_is_sent_each_topic_once() {
    // [MQTT-3.1.2-26], [MQTT-3.3.2-11]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let one_alias = [0x22, 0, 1];
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&packet::connect_with_properties(
        Protocol::V5,
        &who.credentials,
        60,
        &one_alias,
    ))
    .await;
    wire.accepted().await;
    let filter = who.topic("$thing/down/+");
    wire.send(&packet::subscribe(Protocol::V5, 1, &[(&filter, 0)]))
        .await;
    assert_eq!(wire.packet().await.unwrap()[0], 0x90);
    let property = who.topic("$thing/down/property");
    let event = who.topic("$thing/down/event");
    let with_alias = [3, 0x23, 0, 1];
    for (kind, topic, properties) in [
        ("property", &*property, &with_alias[..]),
        ("event", &event, &[0]),
        ("property", "", &with_alias),
        ("event", &event, &[0]),
    ] {
        let subject = who.subject("device.down.mqtt.thing");
        backend.publish(&subject, &[("Jw-Type", kind)], "{}").await;
        let body = [&packet::string(topic), properties, b"{}"].concat();
        let received = wire.packet().await.unwrap();
        assert_eq!(received, packet::packet(0x30, &body), "{kind}");
    }
}
