//! The last packet of a connection: a code, its words, and no more bytes than the device takes.

use crate::support::{DevOptions, Gateway, Protocol, Wire, packet, to_hex};

/// The answer to a CONNECT with this Maximum Packet Size, and to a packet behind it that is against the rules.
async fn answers(gateway: &Gateway, packet_bytes_max: u32) -> Vec<Vec<u8>> {
    let device = gateway.ready.device.clone().unwrap();
    let properties = [&[0x27][..], &packet_bytes_max.to_be_bytes()].concat();
    let connect =
        packet::connect_with_properties(Protocol::V5, &device.credentials, 60, &properties);
    let mut wire = Wire::connect(gateway.mqtt()).await;
    wire.send(&connect).await;
    // PUBLISH with RETAIN, which is not available.
    wire.send_hex("31 04 0001 61 00").await;
    let mut answers = Vec::new();
    while let Some(packet) = wire.packet().await {
        answers.push(packet);
    }
    answers
}

#[tokio::test]
async fn a_goodbye_has_words_and_fits() {
    let mut gateway = Gateway::dev(DevOptions::default()).await;
    // [MQTT-3.14.2-3]
    let smallest = 64;
    let [connack, disconnect] = answers(&gateway, smallest).await.try_into().unwrap();
    assert_eq!((connack[0], connack[3]), (0x20, 0));
    assert_eq!(disconnect, packet::disconnect(0x9a));
    for packet in [connack, disconnect] {
        assert!(packet.len() <= smallest as usize, "{}", to_hex(&packet));
    }
    // [MQTT-3.1.2-24]
    let refused = answers(&gateway, smallest - 1).await;
    assert_eq!(refused, [[0x20, 3, 0, 0x95, 0]]);
    crate::unharmed(&mut gateway);
}
