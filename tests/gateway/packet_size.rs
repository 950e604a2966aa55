//! Maximum Packet Size: no packet is larger than the device takes. What can be left out of one is; else the connection ends, but
//! for a PUBLISH, which is dropped.

use crate::site::{Registered, Site};
use crate::support::{Protocol, Wire, packet, to_hex};

const V5: Protocol = Protocol::V5;

/// Sends a CONNECT with this Maximum Packet Size and a Receive Maximum of 1.
async fn connect(site: &Site, who: &Registered, packet_bytes_max: usize) -> Wire {
    let packet_bytes_max = u32::try_from(packet_bytes_max).unwrap();
    let properties = [&[0x21, 0, 1, 0x27][..], &packet_bytes_max.to_be_bytes()].concat();
    let connect = packet::connect_with_properties(V5, &who.credentials, 60, &properties);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&connect).await;
    wire
}

/// The smallest size of packets with which a device is let in: that of its CONNACK.
async fn smallest(site: &Site, who: &Registered) -> usize {
    let mut wire = connect(site, who, 1_000).await;
    let connack = wire.packet().await.expect("a CONNACK");
    wire.send(&packet::DISCONNECT).await;
    wire.closed().await;
    connack.len()
}

#[tokio::test]
async fn a_device_that_does_not_take_its_connack_is_refused() {
    // [MQTT-3.1.2-24]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let smallest = smallest(&site, &who).await;
    let refusal = [0x20, 3, 0, 0x95, 0];
    for packet_bytes_max in 1..smallest {
        let mut wire = connect(&site, &who, packet_bytes_max).await;
        let answer: &[u8] = match packet_bytes_max {
            ..5 => &[],
            _ => &refusal,
        };
        assert_eq!(wire.closed().await, answer, "{packet_bytes_max}");
    }
    let events = who.subject("application.device") + ".status.connected";
    let connected = backend.wait_for("APPLICATION", &events, 1).await;
    assert_eq!(connected.len(), 1, "none of them was let in");
    let mut wire = connect(&site, &who, smallest).await;
    wire.accepted().await;
    assert!(wire.ping().await.is_empty());
}

#[tokio::test]
async fn what_explains_is_left_out_where_it_does_not_fit() {
    // [MQTT-3.1.2-24], [MQTT-3.4.2-2], [MQTT-3.9.2-1], [MQTT-3.14.2-3]
    let site = Site::shared().await;
    let (who, other) = (site.device(), site.device());
    let smallest = smallest(&site, &who).await;
    let publish = packet::publish(V5, &other.reports(), Some(7), b"not mine");
    let filter = other.topic("$thing/down/+");
    let subscribe = packet::subscribe(V5, 8, &[(&filter, 1)]);
    let in_words = [
        (&publish, vec![0x40, 0, 0, 7, 0x87]),
        (&subscribe, vec![0x90, 0, 0, 8]),
    ];
    for packet_bytes_max in [smallest, 1_000] {
        let mut wire = connect(&site, &who, packet_bytes_max).await;
        wire.accepted().await;
        for (sent, head) in &in_words {
            wire.send(sent).await;
            let answer = wire.packet().await.expect("an answer");
            assert!(answer.len() <= packet_bytes_max, "{}", to_hex(&answer));
            assert_eq!((answer[0], &answer[2..4]), (head[0], &head[2..4]));
            let is_in_words = answer.len() > smallest;
            assert_eq!(is_in_words, packet_bytes_max > smallest);
        }
        wire.send(&packet::PINGRESP).await;
        let goodbye = match packet_bytes_max == smallest {
            true => vec![0xE0, 2, 0x82, 0],
            false => packet::disconnect(0x82),
        };
        assert_eq!(wire.closed().await, goodbye);
    }
}

#[tokio::test]
async fn a_suback_or_unsuback_that_does_not_fit_ends_the_connection() {
    // [MQTT-3.1.2-24]
    let site = Site::shared().await;
    let who = site.device();
    let smallest = smallest(&site, &who).await;
    let filter = who.topic("$thing/down/property");
    // Both packets are 5 bytes and 1 for each filter.
    let fitting = vec![(filter.as_str(), 0); smallest - 5];
    let [subscribe, too_many] = [fitting.len(), fitting.len() + 1].map(|count| {
        let filters = vec![(filter.as_str(), 0); count];
        let unsubscribe = unsubscribe(&vec![filter.as_str(); count]);
        (packet::subscribe(V5, 1, &filters), unsubscribe)
    });
    for too_large in [too_many.0, too_many.1] {
        let mut wire = connect(&site, &who, smallest).await;
        wire.accepted().await;
        for (sent, kind) in [(&subscribe.0, 0x90), (&subscribe.1, 0xB0)] {
            wire.send(sent).await;
            let answer = wire.packet().await.expect("an answer");
            assert_eq!((answer[0], answer.len()), (kind, smallest));
        }
        wire.send(&too_large).await;
        assert_eq!(wire.closed().await, [0xE0, 2, 0x95, 0]);
    }
    assert!(!site.gateway.log().contains("panicked"));
}

fn unsubscribe(filters: &[&str]) -> Vec<u8> {
    let mut body = vec![0, 1, 0];
    body.extend(filters.iter().flat_map(|filter| packet::string(filter)));
    packet::packet(0xA2, &body)
}

#[tokio::test]
async fn a_publish_that_does_not_fit_takes_no_place_of_those_that_do() {
    // [MQTT-3.1.2-25]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = connect(&site, &who, 100).await;
    wire.accepted().await;
    let filter = who.topic("$thing/down/property");
    wire.send(&packet::subscribe(V5, 1, &[(&filter, 1)])).await;
    wire.expect_hex("90 04 00 01 00 01").await;
    let subject = who.subject("device.down.mqtt.thing");
    for round in 0..3 {
        for large in 0..3 {
            backend.publish(&subject, &[], vec![large; 100]).await;
        }
        let fits = format!("fits {round}");
        backend.publish(&subject, &[], fits.clone()).await;
        let publish = wire.packet().await.expect("a PUBLISH");
        assert!(publish.ends_with(fits.as_bytes()), "{}", to_hex(&publish));
        let packet_id = &publish[4 + filter.len()..][..2];
        wire.send(&[&[0x40, 2], packet_id].concat()).await;
    }
}
