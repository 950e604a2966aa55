//! Bytes in pieces, in one piece, too early or never: what TCP and a strange peer make of MQTT. Malformed packets have
//! a test program of their own.

use futures_util::future::join_all;

use crate::site::{BOTH, Site};
use crate::support::{Device, Protocol, Wire, packet};

/// All that a device says from login to goodbye, and what it must hear.
fn conversation(protocol: Protocol, site: &Site, count: u16) -> (Vec<u8>, Vec<u8>, usize) {
    let who = site.device();
    let filter = who.topic("$thing/down/+");
    let mut sent = packet::connect(protocol, &who.credentials, 60);
    sent.extend(packet::subscribe(protocol, 1, &[(&filter, 1)]));
    for packet_id in 1..=count {
        let payload = packet_id.to_string();
        sent.extend(packet::publish(
            protocol,
            &who.reports(),
            Some(packet_id),
            payload.as_bytes(),
        ));
    }
    sent.extend(packet::PINGREQ);
    let suback = match protocol {
        Protocol::V311 => vec![0x90, 3, 0, 1, 1],
        Protocol::V5 => vec![0x90, 4, 0, 1, 0, 1],
    };
    let pubacks = (1..=count).flat_map(|id| [&[0x40, 2][..], &id.to_be_bytes()].concat());
    let number = who.name.trim_start_matches('d').parse().unwrap();
    (sent, suback.into_iter().chain(pubacks).collect(), number)
}

/// Reads what comes behind CONNACK until everything is answered. PINGRESP may come before the PUBACKs.
async fn assert_answered(wire: &mut Wire, expected: &[u8]) {
    wire.accepted().await;
    let (mut answers, mut pings) = (Vec::new(), 0);
    while pings == 0 || answers.len() < expected.len() {
        let packet = wire.packet().await.expect("the connection stays open");
        match packet == packet::PINGRESP {
            true => pings += 1,
            false => answers.extend(packet),
        }
    }
    assert_eq!(answers, expected);
    wire.send(&packet::DISCONNECT).await;
    assert!(wire.closed().await.is_empty());
}

#[tokio::test]
async fn g21_packets_may_be_joined_and_split_anywhere() {
    // For TCP.
    const COUNT: u16 = 20;
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        for piece in [usize::MAX, 1, 2, 3, 7, 64] {
            let (sent, expected, number) = conversation(protocol, &site, COUNT);
            let mut wire = Wire::connect(site.gateway.mqtt()).await;
            for bytes in sent.chunks(piece.min(sent.len())) {
                wire.send(bytes).await;
                // A segment of its own for each piece.
                tokio::task::yield_now().await;
            }
            assert_answered(&mut wire, &expected).await;
            let filter = format!("device.up.mqtt.thing.flows.d{number}");
            let stored = backend.messages("DEVICE_UP", &filter).await;
            let stored = stored.iter().map(|message| message.text().to_owned());
            assert!(
                stored.eq((1..=COUNT).map(|id| id.to_string())),
                "pieces of {piece}"
            );
        }
    }
}

#[tokio::test]
async fn g16_whatever_comes_before_connect_ends_the_connection() {
    // [MQTT-3.1.0-1]
    let site = Site::shared().await;
    let who = site.device();
    for protocol in BOTH {
        for early in [
            packet::publish(protocol, &who.reports(), Some(1), b"early"),
            packet::subscribe(protocol, 1, &[("#", 0)]),
            packet::PINGREQ.to_vec(),
            packet::DISCONNECT.to_vec(),
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            vec![0; 64],
        ] {
            let mut wire = Wire::connect(site.gateway.mqtt()).await;
            wire.send(&early).await;
            wire.send(&packet::connect(protocol, &who.credentials, 60))
                .await;
            assert!(wire.closed().await.is_empty(), "{early:02x?}");
        }
    }
    let backend = site.backend().await;
    assert!(who.stored(&backend).await.is_empty());
    let events = who.subject("application.device") + ".status.*";
    assert!(backend.messages("APPLICATION", &events).await.is_empty());
}

#[tokio::test]
async fn g15_a_handshake_that_does_not_end_in_time_is_closed_and_counted() {
    let environment = [("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", "3000")];
    let site = Site::start(&environment).await;
    let count = "jetway_connects_rejected_total{reason=\"timeout\"}";
    for protocol in BOTH {
        let who = site.device();
        let connect = packet::connect(protocol, &who.credentials, 60);
        // Once it is in, a device may take its time.
        let mut wire = Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await;
        let before = site.gateway.metric(count).await;
        let late = [0, 1, 10, connect.len() - 1].map(async |said| {
            let mut late = Wire::connect(site.gateway.mqtt()).await;
            late.send(&connect[..said]).await;
            assert!(late.closed().await.is_empty(), "{said} bytes");
        });
        join_all(late).await;
        site.counted(count, before + 3.0).await;
        assert!(wire.ping().await.is_empty());
    }
}

#[tokio::test]
async fn a_packet_behind_the_disconnect_is_not_handled() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut wire = Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await;
        let mut bytes = packet::publish(protocol, &who.reports(), None, b"before");
        bytes.extend(packet::DISCONNECT);
        bytes.extend(packet::publish(protocol, &who.reports(), None, b"behind"));
        wire.send(&bytes).await;
        assert!(wire.closed().await.is_empty());
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "later").await, 0);
        let stored = who.stored(&backend).await;
        let stored: Vec<&str> = stored.iter().map(|message| message.text()).collect();
        assert_eq!(stored, ["before", "later"], "{protocol:?}");
    }
}

#[tokio::test]
async fn g14_a_connect_beyond_its_limit_is_closed_before_it_is_read_whole() {
    // G15: who has not logged in is given little memory.
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        // A fixed header that announces 64 KiB; the bytes never come.
        wire.send(&[0x10, 0x80, 0x80, 0x04]).await;
        wire.closed().await;
        let mut large = who.credentials.clone();
        large.username.push_str(&"x".repeat(40_000));
        large.password.push_str(&"x".repeat(40_000));
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        wire.send(&packet::connect(protocol, &large, 60)).await;
        wire.closed().await;
        // Its PUBLISH may be larger than that.
        let mut device = Device::connect(protocol, site.gateway.mqtt(), &who.credentials).await;
        assert_eq!(
            device
                .publish_acked(&who.reports(), vec![b'x'; 200_000])
                .await,
            0
        );
    }
}

/// Three bytes that are no well-formed UTF-8, or that MQTT forbids: a broken sequence, U+0000, a surrogate.
const ILL_FORMED: [[u8; 3]; 3] = [[0xC3, 0x28, b'x'], [b'a', 0, b'b'], [0xED, 0xA0, 0x80]];

/// A packet with these bytes in the place of `???`.
fn with_text(mut packet: Vec<u8>, text: [u8; 3]) -> Vec<u8> {
    let place = packet.windows(3).position(|bytes| bytes == b"???").unwrap();
    packet[place..place + 3].copy_from_slice(&text);
    packet
}

#[tokio::test]
async fn g17_ill_formed_text_closes_the_connection_before_any_side_effect() {
    // [MQTT-1.5.4-1], [MQTT-1.5.4-2]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        for text in ILL_FORMED {
            let mut in_client_id = who.credentials.clone();
            in_client_id.client_id.push_str("???");
            let mut in_user_name = who.credentials.clone();
            in_user_name.username.push_str("???");
            for credentials in [in_client_id, in_user_name] {
                let mut wire = Wire::connect(site.gateway.mqtt()).await;
                let connect = packet::connect(protocol, &credentials, 60);
                wire.send(&with_text(connect, text)).await;
                let answer = wire.closed().await;
                let refused = answer.is_empty() || answer[0] == 0x20 && answer[3] != 0;
                assert!(refused, "{protocol:?}: {answer:02x?}");
            }
            let topic = format!("{}/???", who.reports());
            let filter = who.topic("$thing/down/???");
            for packet in [
                packet::publish(protocol, &topic, Some(1), b"never"),
                packet::subscribe(protocol, 1, &[(&filter, 1)]),
            ] {
                let address = site.gateway.mqtt();
                let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
                wire.send(&with_text(packet, text)).await;
                let goodbye = wire.closed().await;
                match protocol {
                    Protocol::V311 => assert!(goodbye.is_empty(), "{goodbye:02x?}"),
                    Protocol::V5 => assert_eq!(goodbye, packet::disconnect(0x81)),
                }
            }
            // A payload is opaque.
            let mut device = site.connect(protocol, &who).await;
            assert_eq!(device.publish_acked(&who.reports(), text.to_vec()).await, 0);
            device.disconnect().await;
        }
        let stored = who.stored(&backend).await;
        let stored: Vec<&[u8]> = stored.iter().map(|message| &*message.payload).collect();
        assert_eq!(stored, ILL_FORMED, "{protocol:?}");
    }
}
