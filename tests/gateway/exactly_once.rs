//! QoS 2 from a device: one message for a packet identifier until its PUBREL (G06), and never too many of them. And to a
//! device: what it may have half of goes on.

use std::time::Duration;

use crate::offline::{stored, subscribe_and_leave};
use crate::site::{BOTH, Registered, Site};
use crate::support::{Device, Protocol, Wire, lasting, packet};

const DUP: u8 = 0x08;

fn publish(protocol: Protocol, who: &Registered, packet_id: u16, text: &str) -> Vec<u8> {
    let topic = who.reports();
    let mut publish = packet::publish(protocol, &topic, Some(packet_id), text.as_bytes());
    publish[0] = 0x34;
    publish
}

/// PUBREC, PUBREL or PUBCOMP without a reason, which is success.
fn answer(first: u8, packet_id: u16) -> Vec<u8> {
    packet::packet(first, &packet_id.to_be_bytes())
}

fn pubrec(packet_id: u16) -> Vec<u8> {
    answer(0x50, packet_id)
}

fn pubrel(packet_id: u16) -> Vec<u8> {
    answer(0x62, packet_id)
}

fn pubcomp(packet_id: u16) -> Vec<u8> {
    answer(0x70, packet_id)
}

async fn login(site: &Site, protocol: Protocol, who: &Registered) -> Wire {
    Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await
}

#[tokio::test]
async fn g06_a_message_that_is_repeated_before_its_release_is_one_message() {
    // [MQTT-4.3.3-10]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut wire = login(&site, protocol, &who).await;
        let mut first = publish(protocol, &who, 1, "one");
        wire.send(&first).await;
        assert_eq!(wire.packet().await, Some(pubrec(1)));
        first[0] |= DUP;
        for _ in 0..3 {
            wire.send(&first).await;
            assert_eq!(wire.packet().await, Some(pubrec(1)), "{protocol:?}");
        }
        wire.send(&pubrel(1)).await;
        assert_eq!(wire.packet().await, Some(pubcomp(1)));
        // Released again, as after a PUBCOMP that was lost.
        wire.send(&pubrel(1)).await;
        assert_eq!(wire.packet().await, Some(pubcomp(1)));
        // The identifier is free: the same bytes are another message.
        wire.send(&publish(protocol, &who, 1, "one")).await;
        assert_eq!(wire.packet().await, Some(pubrec(1)));
        let stored = who.stored(&backend).await;
        let stored: Vec<&str> = stored.iter().map(|message| message.text()).collect();
        assert_eq!(stored, ["one", "one"], "{protocol:?}");
    }
}

#[tokio::test]
async fn g06_unreleased_messages_are_bounded() {
    // [MQTT-3.3.4-7]: MQTT 5 is told how many; 3.1.1 is not, and closed beyond a limit.
    let site = Site::start(&[
        ("JETWAY_SESSION_UPLINK_INFLIGHT_MAX", "3"),
        ("JETWAY_SESSION_UPLINK_UNRELEASED_MAX", "5"),
    ])
    .await;
    let backend = site.backend().await;
    for (protocol, limit) in BOTH.into_iter().zip([5, 3]) {
        let who = site.device();
        let mut wire = login(&site, protocol, &who).await;
        for packet_id in 1..=limit {
            wire.send(&publish(protocol, &who, packet_id, "kept")).await;
            assert_eq!(wire.packet().await, Some(pubrec(packet_id)), "{protocol:?}");
        }
        wire.send(&publish(protocol, &who, limit + 1, "too many"))
            .await;
        let goodbye = match protocol {
            Protocol::V311 => Vec::new(),
            Protocol::V5 => packet::disconnect(0x93),
        };
        assert_eq!(wire.closed().await, goodbye, "{protocol:?}");
        assert_eq!(who.stored(&backend).await.len(), usize::from(limit));
    }
}

#[tokio::test]
async fn g06_a_refused_message_is_not_stored_and_its_identifier_is_free() {
    // [MQTT-4.3.3-9]. 3.1.1 cannot be told: acknowledged and discarded.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, other) = (site.device(), site.device());
        let mut wire = login(&site, protocol, &who).await;
        wire.send(&publish(protocol, &other, 1, "denied")).await;
        let answer = wire.packet().await.unwrap();
        match protocol {
            Protocol::V311 => {
                assert_eq!(answer, pubrec(1));
                wire.send(&pubrel(1)).await;
                assert_eq!(wire.packet().await, Some(pubcomp(1)));
            }
            Protocol::V5 => assert_eq!((answer[0], answer[4]), (0x50, 0x87), "{answer:02x?}"),
        }
        wire.send(&publish(protocol, &who, 1, "allowed")).await;
        assert_eq!(wire.packet().await, Some(pubrec(1)));
        assert!(other.stored(&backend).await.is_empty());
        assert_eq!(who.stored(&backend).await.len(), 1);
    }
}

#[tokio::test]
async fn a_lifetime_does_not_end_what_a_device_may_have_half_of() {
    // [MQTT-4.3.3-7]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = stored(&site, protocol, &who);
        connect.manual_acks = true;
        subscribe_and_leave(connect.clone(), &who, 2).await;
        let mut device = Device::connect_with(connect.clone()).await.unwrap();
        let subject = who.subject("device.down.mqtt.thing");
        let lifetime = Duration::from_secs(4);
        let ends = jetway::telemetry::now_unix_ms() + 4_000;
        let headers = [("Jw-Qos", "2"), ("Jw-Expires", &*ends.to_string())];
        backend.publish(&subject, &headers, "half").await;
        let first = device.next().await;
        assert_eq!((first.text(), first.qos), ("half", 2));
        // Its progress is written when it leaves.
        device.disconnect().await;
        // So long that who looks after lifetimes has looked at it.
        lasting(lifetime + Duration::from_millis(1_500)).await;
        assert!(jetway::telemetry::now_unix_ms() > ends);
        let mut device = Device::connect_with(connect).await.unwrap();
        let again = device.next().await;
        assert_eq!((again.text(), again.qos, again.dup), ("half", 2, true));
        assert_eq!(again.packet_id, first.packet_id, "{protocol:?}");
        device.disconnect().await;
    }
}
