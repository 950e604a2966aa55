//! The table of packets and the bytes that they are written as, and the builders that it is made with.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::Bytes;
use bytestring::ByteString;
use jetway::mqtt::{
    Ack, Auth, Connack, ConnackProperties, Connect, ConnectProperties, Disconnect, Packet,
    PacketId, Publish, PublishProperties, QoS, ReasonCode, Suback, Subscribe, Subscription,
    TopicFilter, TopicName, Unsuback, Unsubscribe, UserProperties, Version, Will,
};

pub(crate) const V4: Version = Version::V3_1_1;
pub(crate) const V5: Version = Version::V5;

/// A packet and the bytes that it is written as.
pub(crate) type Row = (Version, &'static str, Packet);

pub(crate) fn rows() -> Vec<Row> {
    let parts = [
        connects(),
        connacks(),
        publishes(),
        acks(),
        subscribes(),
        unsubscribes(),
        others(),
    ];
    parts.into_iter().flatten().collect()
}

pub(crate) fn text(text: &'static str) -> ByteString {
    ByteString::from_static(text)
}

pub(crate) fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn user(pairs: &[(&'static str, &'static str)]) -> UserProperties {
    pairs.iter().copied().collect()
}

pub(crate) fn connect(version: Version) -> Connect {
    Connect {
        version,
        clean_start: true,
        keep_alive: 60,
        client_id: text("mal"),
        username: None,
        password: None,
        will: None,
        properties: ConnectProperties::default(),
    }
}

pub(crate) fn will() -> Will {
    Will {
        topic: TopicName::try_from(text("w")).unwrap(),
        payload: Bytes::from_static(b"\xff\0"),
        qos: QoS::AtLeastOnce,
        retain: true,
        delay_interval: 0,
        properties: PublishProperties::default(),
    }
}

pub(crate) fn publish() -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: text("a/b"),
        packet_id: None,
        properties: PublishProperties::default(),
        payload: Bytes::from_static(b"hi"),
    }
}

fn connects() -> Vec<Row> {
    let of = |connect| Packet::Connect(Box::new(connect));
    // The password is opaque: bytes that are not UTF-8, and U+0000.
    let full = Connect {
        clean_start: false,
        username: Some(text("u")),
        password: Some(Bytes::from_static(b"\0\xff")),
        will: Some(will()),
        ..connect(V4)
    };
    let properties = ConnectProperties {
        session_expiry_interval: Some(3600),
        receive_maximum: NonZeroU16::new(20),
        maximum_packet_size: NonZeroU32::new(65_536),
        topic_alias_maximum: Some(0),
        request_response_information: Some(true),
        request_problem_information: Some(false),
        authentication_method: Some(text("m")),
        authentication_data: Some(Bytes::from_static(b"\0")),
        user: user(&[("k", "1"), ("k", "2")]),
    };
    let will_properties = PublishProperties {
        payload_format_indicator: Some(0),
        content_type: Some(text("t")),
        user: user(&[("w", "")]),
        ..PublishProperties::default()
    };
    let full_5 = Connect {
        version: V5,
        properties,
        will: Some(Will {
            delay_interval: 5,
            properties: will_properties,
            ..will()
        }),
        ..full.clone()
    };
    let password_alone = Connect {
        password: Some(Bytes::from_static(b"pw")),
        ..connect(V5)
    };
    // The session decides whether an empty client identifier is allowed here.
    let no_id = Connect {
        clean_start: false,
        client_id: text(""),
        ..connect(V4)
    };
    vec![
        (V4, "10 0f 0004'MQTT' 04 02 003c 0003'mal'", of(connect(V4))),
        (
            V5,
            "10 10 0004'MQTT' 05 02 003c 00 0003'mal'",
            of(connect(V5)),
        ),
        (V4, "10 0c 0004'MQTT' 04 00 003c 0000", of(no_id)),
        (
            V4,
            "10 1d 0004'MQTT' 04 ec 003c 0003'mal' 0001'w' 0002 ff00 0001'u' 0002 00ff",
            of(full),
        ),
        (
            V5,
            "10 5a 0004'MQTT' 05 ec 003c 2a 1100000e10 210014 2700010000 220000 1901 1700 150001'm' 16000100 \
             26 0001'k' 0001'1' 26 0001'k' 0001'2' 0003'mal' 11 1800000005 0100 030001't' 26 0001'w' 0000 \
             0001'w' 0002 ff00 0001'u' 0002 00ff",
            of(full_5),
        ),
        (
            V5,
            "10 14 0004'MQTT' 05 42 003c 00 0003'mal' 0002'pw'",
            of(password_alone),
        ),
    ]
}

fn connacks() -> Vec<Row> {
    let of = |session_present, reason| {
        let properties = ConnackProperties::default();
        Packet::Connack(Connack {
            session_present,
            reason,
            properties,
        })
    };
    let properties = ConnackProperties {
        session_expiry_interval: Some(0),
        receive_maximum: NonZeroU16::new(1),
        maximum_qos: Some(QoS::AtLeastOnce),
        retain_available: Some(false),
        maximum_packet_size: NonZeroU32::new(5),
        assigned_client_identifier: Some(text("c")),
        topic_alias_maximum: Some(7),
        reason_string: Some(text("r")),
        user: user(&[("", "v")]),
        wildcard_subscription_available: Some(false),
        subscription_identifiers_available: Some(false),
        shared_subscription_available: Some(true),
        server_keep_alive: Some(9),
        response_information: Some(text("i")),
        server_reference: Some(text("s")),
        authentication_method: Some(text("m")),
        authentication_data: Some(Bytes::from_static(b"\xfe")),
    };
    let full = Packet::Connack(Connack {
        session_present: true,
        reason: ReasonCode::Success,
        properties,
    });
    vec![
        (V4, "20 02 00 00", of(false, ReasonCode::Success)),
        (V4, "20 02 01 00", of(true, ReasonCode::Success)),
        (
            V4,
            "20 02 00 01",
            of(false, ReasonCode::UnsupportedProtocolVersion),
        ),
        (V4, "20 02 00 05", of(false, ReasonCode::NotAuthorized)),
        (
            V5,
            "20 03 00 86 00",
            of(false, ReasonCode::BadUserNameOrPassword),
        ),
        (
            V5,
            "20 3e 01 00 3b 1100000000 210001 2401 2500 2700000005 120001'c' 220007 1f0001'r' 2800 2900 2a01 \
             130009 1a0001'i' 1c0001's' 150001'm' 160001fe 26 0000 0001'v'",
            full,
        ),
    ]
}

fn publishes() -> Vec<Row> {
    let again = Publish {
        dup: true,
        qos: QoS::AtLeastOnce,
        retain: true,
        packet_id: Some(id(0x1234)),
        ..publish()
    };
    let empty = Publish {
        payload: Bytes::new(),
        ..publish()
    };
    // U+FEFF at the start is part of the topic. [MQTT-1.5.4-3]
    let byte_order_mark = Publish {
        topic: text("\u{feff}a"),
        ..publish()
    };
    let properties = PublishProperties {
        payload_format_indicator: Some(1),
        message_expiry_interval: Some(u32::MAX),
        topic_alias: NonZeroU16::new(u16::MAX),
        response_topic: Some(text("r")),
        correlation_data: Some(Bytes::from_static(b"\0")),
        subscription_identifiers: [1, 128, 268_435_455]
            .into_iter()
            .filter_map(NonZeroU32::new)
            .collect(),
        content_type: Some(text("t")),
        user: user(&[("b", "1"), ("a", "2"), ("b", "3")]),
    };
    let full = Publish {
        qos: QoS::ExactlyOnce,
        packet_id: Some(id(1)),
        properties,
        ..publish()
    };
    let alias_alone = Publish {
        topic: text(""),
        properties: PublishProperties {
            topic_alias: NonZeroU16::new(1),
            ..PublishProperties::default()
        },
        ..publish()
    };
    let of = Packet::Publish;
    vec![
        // [MQTT-2.2.1-2]
        (V4, "30 07 0003'a/b' 'hi'", of(publish())),
        (V5, "30 08 0003'a/b' 00 'hi'", of(publish())),
        (V4, "3b 09 0003'a/b' 1234 'hi'", of(again.clone())),
        (V5, "3b 0a 0003'a/b' 1234 00 'hi'", of(again)),
        (V4, "30 05 0003'a/b'", of(empty)),
        (V4, "30 08 0004 efbbbf 'a' 'hi'", of(byte_order_mark)),
        (
            V5,
            "34 3f 0003'a/b' 0001 35 0101 030001't' 080001'r' 09000100 26 0001'b' 0001'1' 26 0001'a' 0001'2' \
             26 0001'b' 0001'3' 23ffff 0b01 0b8001 0bffffff7f 02ffffffff 'hi'",
            of(full),
        ),
        (V5, "30 08 0000 03 230001 'hi'", of(alias_alone)),
    ]
}

fn acks() -> Vec<Row> {
    let ok = Ack::new(id(1), ReasonCode::Success);
    let none = Ack::new(id(0xffff), ReasonCode::NoMatchingSubscribers);
    let gone = Ack::new(id(1), ReasonCode::PacketIdentifierNotFound);
    let full = Ack {
        reason_string: Some(text("r")),
        user: user(&[("k", "v")]),
        ..ok.clone()
    };
    vec![
        (V4, "40 02 0001", Packet::Puback(ok.clone())),
        (V4, "50 02 0001", Packet::Pubrec(ok.clone())),
        (V4, "62 02 0001", Packet::Pubrel(ok.clone())),
        (V4, "70 02 0001", Packet::Pubcomp(ok.clone())),
        (V5, "40 02 0001", Packet::Puback(ok.clone())),
        (V5, "50 02 0001", Packet::Pubrec(ok)),
        (V5, "40 03 ffff 10", Packet::Puback(none)),
        (V5, "62 03 0001 92", Packet::Pubrel(gone.clone())),
        (V5, "70 03 0001 92", Packet::Pubcomp(gone)),
        (
            V5,
            "40 0f 0001 00 0b 1f0001'r' 26 0001'k' 0001'v'",
            Packet::Puback(full),
        ),
    ]
}

pub(crate) fn subscription(filter: &'static str, qos: QoS) -> Subscription {
    Subscription {
        filter: TopicFilter::try_from(text(filter)).unwrap(),
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: 0,
    }
}

fn subscribes() -> Vec<Row> {
    let plain = Subscribe {
        packet_id: id(10),
        identifier: None,
        filters: vec![
            subscription("a/#", QoS::AtMostOnce),
            subscription("$share/g/+", QoS::ExactlyOnce),
        ],
        user: UserProperties::default(),
    };
    let options = Subscription {
        no_local: true,
        retain_as_published: true,
        retain_handling: 2,
        ..subscription("a", QoS::AtLeastOnce)
    };
    let full = Subscribe {
        identifier: NonZeroU32::new(128),
        filters: vec![options],
        user: user(&[("k", "v")]),
        ..plain.clone()
    };
    let suback = |reasons: &[ReasonCode]| Suback {
        packet_id: id(10),
        reasons: reasons.to_vec(),
        reason_string: None,
        user: UserProperties::default(),
    };
    let granted = [
        ReasonCode::Success,
        ReasonCode::GrantedQoS1,
        ReasonCode::GrantedQoS2,
        ReasonCode::UnspecifiedError,
    ];
    let refused = Suback {
        reason_string: Some(text("no")),
        ..suback(&[ReasonCode::WildcardSubscriptionsNotSupported])
    };
    vec![
        (
            V4,
            "82 15 000a 0003'a/#' 00 000a'$share/g/+' 02",
            Packet::Subscribe(plain.clone()),
        ),
        (
            V5,
            "82 16 000a 00 0003'a/#' 00 000a'$share/g/+' 02",
            Packet::Subscribe(plain),
        ),
        (
            V5,
            "82 11 000a 0a 0b8001 26 0001'k' 0001'v' 0001'a' 2d",
            Packet::Subscribe(full),
        ),
        (
            V4,
            "90 06 000a 00 01 02 80",
            Packet::Suback(suback(&granted)),
        ),
        (
            V5,
            "90 07 000a 00 00 01 02 80",
            Packet::Suback(suback(&granted)),
        ),
        (V5, "90 09 000a 05 1f0002'no' a2", Packet::Suback(refused)),
    ]
}

fn unsubscribes() -> Vec<Row> {
    let filter = |text| subscription(text, QoS::AtMostOnce).filter;
    let unsubscribe = Unsubscribe {
        packet_id: id(3),
        filters: vec![filter("a"), filter("+")],
        user: UserProperties::default(),
    };
    let with_user = Unsubscribe {
        user: user(&[("k", "v")]),
        ..unsubscribe.clone()
    };
    let unsuback = |reasons: &[ReasonCode]| {
        Packet::Unsuback(Unsuback {
            packet_id: id(3),
            reasons: reasons.to_vec(),
            reason_string: None,
            user: UserProperties::default(),
        })
    };
    let two = [ReasonCode::Success, ReasonCode::NoSubscriptionExisted];
    let of = Packet::Unsubscribe;
    vec![
        (V4, "a2 08 0003 0001'a' 0001'+'", of(unsubscribe.clone())),
        (V5, "a2 09 0003 00 0001'a' 0001'+'", of(unsubscribe)),
        (
            V5,
            "a2 10 0003 07 26 0001'k' 0001'v' 0001'a' 0001'+'",
            of(with_user),
        ),
        (V4, "b0 02 0003", unsuback(&[])),
        (V5, "b0 05 0003 00 00 11", unsuback(&two)),
    ]
}

fn others() -> Vec<Row> {
    let disconnect = Disconnect::new(ReasonCode::Success);
    let taken_over = Disconnect::new(ReasonCode::SessionTakenOver);
    let full_disconnect = Disconnect {
        reason: ReasonCode::UseAnotherServer,
        session_expiry_interval: Some(1),
        server_reference: Some(text("s")),
        reason_string: Some(text("r")),
        user: user(&[("k", "v")]),
    };
    let bare_auth = Auth {
        reason: ReasonCode::Success,
        authentication_method: None,
        authentication_data: None,
        reason_string: None,
        user: UserProperties::default(),
    };
    let full_auth = Auth {
        reason: ReasonCode::ContinueAuthentication,
        authentication_method: Some(text("m")),
        authentication_data: Some(Bytes::from_static(b"\0")),
        reason_string: Some(text("r")),
        user: user(&[("k", "v")]),
    };
    vec![
        (V4, "c0 00", Packet::Pingreq),
        (V5, "d0 00", Packet::Pingresp),
        (V4, "e0 00", Packet::Disconnect(disconnect.clone())),
        (V5, "e0 00", Packet::Disconnect(disconnect)),
        (V5, "e0 02 8e 00", Packet::Disconnect(taken_over)),
        (
            V5,
            "e0 16 9c 14 1100000001 1c0001's' 1f0001'r' 26 0001'k' 0001'v'",
            Packet::Disconnect(full_disconnect),
        ),
        (V5, "f0 00", Packet::Auth(bare_auth)),
        (
            V5,
            "f0 15 18 13 150001'm' 16000100 1f0001'r' 26 0001'k' 0001'v'",
            Packet::Auth(full_auth),
        ),
    ]
}
