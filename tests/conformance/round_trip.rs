//! Any packet that can be written is read back as it was, in whatever pieces it arrives, and no bytes panic.

use bytes::BytesMut;
use jetway::mqtt::{Packet, ReasonCode, Version};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::strategy;
use crate::wire::{codec, encode};

proptest! {
    #[test]
    fn packets_of_5_come_back(packets in prop::collection::vec(strategy::packet(), 1..6), cuts: [u8; 8]) {
        come_back(Version::V5, &packets, cuts);
    }

    #[test]
    fn packets_of_3_1_1_come_back(
        packets in prop::collection::vec(strategy::packet_of_3_1_1(), 1..6),
        cuts: [u8; 8],
    ) {
        come_back(Version::V3_1_1, &packets, cuts);
    }

    /// Whatever is accepted can be written, and then means the same.
    #[test]
    fn bytes_never_panic(mut src in strategy::almost_packet(), is_5: bool) {
        let version = if is_5 { Version::V5 } else { Version::V3_1_1 };
        let mut codec = codec(Some(version));
        while let Ok(Some(packet)) = codec.decode(&mut src) {
            let bytes = encode(version, &packet);
            let again = codec.decode(&mut bytes.unwrap());
            prop_assert_eq!(again, Ok(Some(packet)));
        }
    }
}

/// Writes packets behind each other and reads them from a buffer that grows by the lengths of `pieces` in turn.
fn come_back(version: Version, packets: &[Packet], pieces: [u8; 8]) {
    let mut sent = BytesMut::new();
    let mut codec = codec(Some(version));
    for packet in packets {
        codec.encode(packet, &mut sent).unwrap();
    }
    let mut received = Vec::new();
    let mut src = BytesMut::new();
    for piece in pieces.iter().cycle() {
        let length = sent.len().min(usize::from(*piece) + 1);
        src.extend_from_slice(&sent.split_to(length));
        while let Some(packet) = codec.decode(&mut src).unwrap() {
            received.push(packet);
        }
        if sent.is_empty() {
            break;
        }
    }
    assert!(src.is_empty());
    assert_eq!(received, packets);
}

/// The strategies must reach the packets that they are for.
#[test]
fn every_packet_type_is_made() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let packet = strategy::packet().new_tree(&mut runner).unwrap().current();
        names.insert(packet.name());
    }
    assert_eq!(names.len(), 15, "{names:?}");
}

#[test]
fn a_failure_is_left_out_where_3_1_1_has_no_word_for_it() {
    // [MQTT-3.9.3-2]
    let suback = Packet::Suback(jetway::mqtt::Suback {
        packet_id: jetway::mqtt::PacketId::new(1).unwrap(),
        reasons: vec![ReasonCode::QuotaExceeded],
        reason_string: None,
        user: [("k", "v")].into_iter().collect(),
    });
    let bytes = encode(Version::V3_1_1, &suback).unwrap();
    assert_eq!(bytes, crate::wire::bytes("90 03 0001 80"));
}
