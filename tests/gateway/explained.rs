//! What is refused is explained in words to MQTT 5 devices, unless they decline, and no more bytes than they take.

use crate::site::{Registered, Site};
use crate::support::{Protocol, Wire, packet};

const WORDS: &str = "topic of another device";

/// The answers to a PUBLISH and a SUBSCRIBE that are denied.
async fn answers(site: &Site, connect_properties: &[u8]) -> [Vec<u8>; 2] {
    let (who, other): (Registered, Registered) = (site.device(), site.device());
    let connect =
        packet::connect_with_properties(Protocol::V5, &who.credentials, 60, connect_properties);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&connect).await;
    wire.accepted().await;
    let publish = packet::publish(Protocol::V5, &other.reports(), Some(1), b"denied");
    wire.send(&publish).await;
    let puback = wire.packet().await.unwrap();
    let filter = other.topic("$thing/down/+");
    wire.send(&packet::subscribe(Protocol::V5, 2, &[(&filter, 1)]))
        .await;
    [puback, wire.packet().await.unwrap()]
}

#[tokio::test]
async fn a_refusal_has_a_reason_string_unless_the_device_declines() {
    // [MQTT-3.1.2-29]
    let site = Site::shared().await;
    let reason_string = [&[0x1F][..], &packet::string(WORDS)].concat();
    let length = u8::try_from(reason_string.len()).unwrap();
    let explained = [
        packet::packet(0x40, &[&[0, 1, 0x87, length], &reason_string[..]].concat()),
        packet::packet(
            0x90,
            &[&[0, 2, length], &reason_string[..], &[0x87]].concat(),
        ),
    ];
    let plain = [
        packet::packet(0x40, &[0, 1, 0x87]),
        packet::packet(0x90, &[0, 2, 0, 0x87]),
    ];
    assert_eq!(answers(&site, &[]).await, explained);
    assert_eq!(answers(&site, &[0x17, 1]).await, explained);
    assert_eq!(answers(&site, &[0x17, 0]).await, plain);
}
