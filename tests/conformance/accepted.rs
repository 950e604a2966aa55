//! Packets and their bytes: decode, encode, and what becomes of a packet that is cut at any byte.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use jetway::mqtt::{
    Ack, Auth, Connect, ConnectProperties, Disconnect, Packet, Publish, PublishProperties, QoS,
    ReasonCode, Subscribe, UserProperties, Version, Will, frame_bytes,
};

use crate::packets::{V4, V5, connect, id, publish, rows, subscription, text, will};
use crate::wire::{bytes, codec, decode, encode};

#[test]
fn packets_are_read_and_written_as_the_table_says() {
    for (version, text, packet) in rows() {
        let bytes = bytes(text);
        assert_eq!(encode(version, &packet).unwrap(), bytes, "{text}");
        assert_eq!(
            decode(Some(version), &bytes),
            Ok((Some(packet), 0)),
            "{text}"
        );
        assert_eq!(frame_bytes(&bytes), Ok(Some(bytes.len())), "{text}");
    }
}

/// More than one way to say the same: what is written is the shortest, but for a DISCONNECT with a reason, whose property length some
/// clients miss.
#[test]
fn other_forms_are_read_too() {
    let other_forms = [
        ("e0 01 8e", "e0 02 8e 00"),
        ("40 03 0001 00", "40 02 0001"),
        ("40 04 0001 00 00", "40 02 0001"),
        ("50 04 0001 10 00", "50 03 0001 10"),
        ("e0 01 00", "e0 00"),
        ("e0 02 00 00", "e0 00"),
        ("f0 02 00 00", "f0 00"),
    ];
    for (other, written) in other_forms {
        let (packet, rest) = decode(Some(V5), &bytes(other)).unwrap();
        assert_eq!(rest, 0, "{other}");
        assert_eq!(
            encode(V5, &packet.unwrap()).unwrap(),
            bytes(written),
            "{other}"
        );
    }
}

/// User properties are read from between the others, whatever these are, and written behind them in their order.
#[test]
fn user_properties_are_found_among_all_others() {
    const PAIR: &str = "26 0001'a' 0001'b'";
    let connect = "1100000e10 210014 2700010000 220000 1901 1700 150001'm' 16000100";
    let connack = "1100000000 210001 2401 2500 2700000005 120001'c' 220007 1f0001'r' 2800 2900 2a01 \
                   130009 1a0001'i' 1c0001's' 150001'm' 160001fe";
    let publish = "0101 030001't' 080001'r' 09000100";
    let made_anew = "23ffff 0b01 0b8001 0bffffff7f 02ffffffff";
    for (head, before, behind, end) in [
        ("10 0004'MQTT' 05 02 003c", connect, "", "0003'mal'"),
        (
            "10 0004'MQTT' 05 06 003c 00 0003'mal'",
            "0101 030001't'",
            "0200000005",
            "0001'w' 0000",
        ),
        ("20 00 00", connack, "", ""),
        ("30 0003'a/b'", publish, made_anew, "'hi'"),
    ] {
        let last = "26 0000 0000";
        let long = packet_bytes(head, &format!("{PAIR} {behind} {before} {last}"), end);
        let short = packet_bytes(head, &format!("{before} {PAIR} {last} {behind}"), end);
        let (packet, _) = decode(Some(V5), &long).unwrap();
        assert_eq!(encode(V5, &packet.unwrap()).unwrap(), short, "{before}");
    }
}

/// A packet with a fixed header around `head` (its first byte goes in front), a property section and `end`.
fn packet_bytes(head: &str, section: &str, end: &str) -> Vec<u8> {
    let (first, head) = head.split_once(' ').unwrap();
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let section = bytes(section);
    let mut body = bytes(head);
    body.push(length(&section));
    body.extend(section);
    body.extend(bytes(end));
    let mut packet = bytes(first);
    packet.push(length(&body));
    packet.extend(body);
    packet
}

#[test]
fn the_first_connect_sets_the_version() {
    let mut codec = codec(None);
    let mut src = BytesMut::from(&bytes("10 10 0004'MQTT' 05 02 003c 00 0003'mal' c000")[..]);
    assert_eq!(
        codec.decode(&mut src),
        Ok(Some(Packet::Connect(Box::new(connect(V5)))))
    );
    assert_eq!(codec.version(), Some(V5));
    assert_eq!(codec.decode(&mut src), Ok(Some(Packet::Pingreq)));
    // A second one is for the session to refuse, in the version of the first.
    src.extend_from_slice(&bytes("10 0f 0004'MQTT' 04 02 003c 0003'mal'"));
    assert_eq!(
        codec.decode(&mut src),
        Ok(Some(Packet::Connect(Box::new(connect(V4)))))
    );
    assert_eq!(codec.version(), Some(V5));
}

/// MQTT 3.1 has another name and level, and is served as 3.1.1.
#[test]
fn the_oldest_version_is_read_as_3_1_1() {
    let mut codec = codec(None);
    let mut src = BytesMut::from(&bytes("10 11 0006'MQIsdp' 03 02 003c 0003'mal'")[..]);
    assert_eq!(
        codec.decode(&mut src),
        Ok(Some(Packet::Connect(Box::new(connect(V4)))))
    );
    assert_eq!(codec.version(), Some(V4));
}

/// A CONNECT that is refused says in which form, as soon as its protocol level is known.
#[test]
fn a_refused_connect_is_answered_in_its_own_form() {
    // [MQTT-3.1.2-1], [MQTT-3.1.2-2]
    for (text, expected) in [
        ("10 0f 0004'MQTX' 04 02 003c 0003'mal'", None),
        ("10 0f 0004'MQTT' 03 02 003c 0003'mal'", Some(V4)),
        ("10 0f 0004'MQTT' 06 02 003c 0003'mal'", Some(V5)),
        ("10 0f 0004'MQTT' 04 03 003c 0003'mal'", Some(V4)),
        ("10 10 0004'MQTT' 05 03 003c 00 0003'mal'", Some(V5)),
    ] {
        let mut codec = codec(None);
        assert!(codec.decode(&mut BytesMut::from(&bytes(text)[..])).is_err());
        assert_eq!(codec.version(), expected, "{text}");
    }
}

#[test]
fn the_start_of_a_packet_waits_and_reserves_nothing() {
    for (version, text, _) in rows() {
        let whole = bytes(text);
        for length in 0..whole.len() {
            let mut src = BytesMut::from(&whole[..length]);
            let capacity = src.capacity();
            assert_eq!(
                codec(Some(version)).decode(&mut src),
                Ok(None),
                "{text} at {length}"
            );
            assert_eq!(src, whole[..length]);
            assert_eq!(src.capacity(), capacity);
        }
    }
}

/// A whole frame around the first bytes of a packet's content is refused, except where these are a packet too.
#[test]
fn cut_content_is_refused() {
    for (version, text, packet) in rows() {
        let whole = bytes(text);
        // No packet of the table has more than 127 bytes, so that the fixed header has two.
        for length in 0..whole.len() - 2 {
            let mut cut = whole[..2 + length].to_vec();
            cut[1] = u8::try_from(length).unwrap();
            let decoded = decode(Some(version), &cut);
            if is_packet_too(&packet, version, length, whole.len() - 2) {
                let (decoded, rest) = decoded.unwrap();
                assert_eq!(rest, 0);
                // A DISCONNECT without properties says the same without their length.
                let same = matches!(&packet, Packet::Disconnect(_)) && length == 1;
                assert!(
                    same || decoded != Some(packet.clone()),
                    "{text} at {length}"
                );
            } else {
                assert!(decoded.is_err(), "{text} at {length}: {decoded:?}");
            }
        }
    }
}

/// Whether the first `length` of a packet's `whole` content bytes are a packet of the same type.
fn is_packet_too(packet: &Packet, version: Version, length: usize, whole: usize) -> bool {
    match packet {
        Packet::Publish(publish) => length >= whole - publish.payload.len(),
        // The reason and its properties may be left out.
        Packet::Puback(_) | Packet::Pubrec(_) | Packet::Pubrel(_) | Packet::Pubcomp(_) => {
            version == V5 && (length == 2 || length == 3)
        }
        Packet::Disconnect(_) => length <= 1,
        Packet::Auth(_) => length == 0,
        // Lists end where an entry ends.
        Packet::Suback(suback) => whole - length < suback.reasons.len(),
        Packet::Unsuback(unsuback) => whole - length < unsuback.reasons.len(),
        Packet::Subscribe(subscribe) => {
            let last = subscribe.filters.last().unwrap().filter.as_str();
            subscribe.filters.len() > 1 && whole - length == last.len() + 3
        }
        Packet::Unsubscribe(unsubscribe) => {
            let last = unsubscribe.filters.last().unwrap().as_str();
            whole - length == last.len() + 2
        }
        Packet::Connect(_) | Packet::Connack(_) | Packet::Pingreq | Packet::Pingresp => false,
    }
}

/// Nothing of a packet is written that the peer would refuse or that would say something else.
fn not_written(version: Version, packet: &Packet) {
    let mut dst = BytesMut::from("before");
    let written = codec(Some(version)).encode(packet, &mut dst);
    assert!(written.is_err(), "{packet:?}");
    assert_eq!(dst, "before");
}

#[test]
fn texts_that_no_string_can_hold_are_not_written() {
    // [MQTT-1.5.4-2]
    let long = ByteString::from("a".repeat(65_536));
    for bad in [long, text("\0")] {
        let ack = Ack::new(id(1), ReasonCode::Success);
        let with_reason = Ack {
            reason_string: Some(bad.clone()),
            ..ack.clone()
        };
        let with_user = Ack {
            user: [(bad.clone(), text("v"))].into_iter().collect(),
            ..ack
        };
        not_written(V5, &Packet::Puback(with_reason));
        not_written(V5, &Packet::Puback(with_user));
        let topic = bad;
        let publish = Publish { topic, ..publish() };
        not_written(V4, &Packet::Publish(publish));
    }
}

#[test]
fn bad_publishes_are_not_written() {
    let with_topic = |topic| Publish {
        topic: text(topic),
        ..publish()
    };
    let with_id = Publish {
        packet_id: Some(id(1)),
        ..publish()
    };
    let without_id = Publish {
        qos: QoS::AtLeastOnce,
        ..publish()
    };
    let dup = Publish {
        dup: true,
        ..publish()
    };
    let mut bad_format = publish();
    bad_format.properties.payload_format_indicator = Some(2);
    for bad in [
        with_topic(""),
        with_topic("+"),
        with_id,
        without_id,
        dup,
        bad_format,
    ] {
        not_written(V5, &Packet::Publish(bad));
    }
}

#[test]
fn what_a_property_cannot_say_is_not_written() {
    let properties = PublishProperties {
        topic_alias: NonZeroU16::new(1),
        ..PublishProperties::default()
    };
    let will = Some(Will {
        properties,
        ..will()
    });
    let with_alias = Connect {
        will,
        ..connect(V5)
    };
    not_written(V5, &Packet::Connect(Box::new(with_alias)));
    let large_identifier = Subscribe {
        packet_id: id(1),
        identifier: NonZeroU32::new(268_435_456),
        filters: vec![subscription("a", QoS::AtMostOnce)],
        user: UserProperties::default(),
    };
    not_written(V5, &Packet::Subscribe(large_identifier));
}

/// A PUBACK of 3.1.1 has no reason: it would say that a refused message is stored.
#[test]
fn reasons_that_a_packet_cannot_carry_are_not_written() {
    let refused = Ack::new(id(1), ReasonCode::NotAuthorized);
    not_written(V4, &Packet::Puback(refused.clone()));
    not_written(V4, &Packet::Pubrec(refused.clone()));
    not_written(V5, &Packet::Pubrel(refused));
    let disconnect = Disconnect::new(ReasonCode::BadUserNameOrPassword);
    not_written(V5, &Packet::Disconnect(disconnect));
    let auth = Auth {
        reason: ReasonCode::Success,
        authentication_method: None,
        authentication_data: None,
        reason_string: None,
        user: UserProperties::default(),
    };
    not_written(V4, &Packet::Auth(auth));
}

#[test]
fn sizes_are_kept_to_the_byte() {
    let packet = Packet::Publish(publish());
    let bytes = encode(V4, &packet).unwrap();
    let size = u32::try_from(bytes.len()).unwrap();
    for (limit, fits) in [(size, true), (size - 1, false)] {
        let mut codec = jetway::mqtt::Codec::new(limit);
        codec.set_version(V4);
        let decoded = codec.decode(&mut bytes.clone());
        assert_eq!(decoded.is_ok(), fits);
        // [MQTT-3.1.2-24]
        codec.set_peer_packet_bytes_max(limit);
        let mut dst = BytesMut::new();
        let encoded = codec.encode(&packet, &mut dst);
        assert_eq!(encoded.is_ok(), fits);
        for reason in [decoded.err(), encoded.err()].into_iter().flatten() {
            assert_eq!(reason.reason, ReasonCode::PacketTooLarge);
        }
    }
}

#[test]
fn a_reason_string_that_does_not_fit_is_left_out() {
    // [MQTT-3.4.2-2], [MQTT-3.9.2-1], [MQTT-3.14.2-3]
    let forms = [
        ("40 0a 0001 87 06 1f 0003'why'", "40 03 0001 87"),
        ("90 0a 0001 06 1f 0003'why' 87", "90 04 0001 00 87"),
        ("b0 0a 0001 06 1f 0003'why' 87", "b0 04 0001 00 87"),
        ("e0 08 8b 06 1f 0003'why'", "e0 02 8b 00"),
        (
            "e0 0c 9c 0a 1c 0001's' 1f 0003'why'",
            "e0 06 9c 04 1c 0001's'",
        ),
        ("20 09 00 87 06 1f 0003'why'", "20 03 00 87 00"),
    ];
    for (whole, shorter) in forms {
        let (whole, shorter) = (bytes(whole), bytes(shorter));
        let packet = decode(Some(V5), &whole).unwrap().0.unwrap();
        let limited = |size: usize| {
            let mut codec = codec(Some(V5));
            codec.set_peer_packet_bytes_max(u32::try_from(size).unwrap());
            let mut dst = BytesMut::new();
            codec.encode(&packet, &mut dst).map(|()| dst.to_vec())
        };
        assert_eq!(limited(whole.len()), Ok(whole.clone()));
        assert_eq!(limited(whole.len() - 1), Ok(shorter.clone()));
        assert_eq!(limited(shorter.len()), Ok(shorter.clone()));
        let refused = limited(shorter.len() - 1).unwrap_err();
        assert_eq!(refused.reason, ReasonCode::PacketTooLarge);
    }
}

#[test]
fn before_a_connect_only_connect_can_be_written() {
    let codec = codec(None);
    let mut dst = BytesMut::new();
    assert!(codec.encode(&Packet::Pingreq, &mut dst).is_err());
    let connect = Packet::Connect(Box::new(connect(V5)));
    codec.encode(&connect, &mut dst).unwrap();
    assert_eq!(dst, bytes("10 10 0004'MQTT' 05 02 003c 00 0003'mal'"));
}

#[test]
fn secrets_are_not_in_the_debug_form() {
    let connect = Connect {
        username: Some(text("u")),
        password: Some(Bytes::from_static(b"hunter2")),
        properties: ConnectProperties {
            authentication_data: Some(Bytes::from_static(b"hunter3")),
            ..ConnectProperties::default()
        },
        ..connect(V5)
    };
    assert!(!format!("{connect:?}").contains("hunter"));
    let auth = Auth {
        reason: ReasonCode::ContinueAuthentication,
        authentication_method: Some(text("m")),
        authentication_data: Some(Bytes::from_static(b"hunter4")),
        reason_string: None,
        user: UserProperties::default(),
    };
    let hidden = format!("{:?}", Bytes::from_static(b"hunter4"));
    assert!(!format!("{auth:?}").contains(&hidden));
}
