//! Strategies for packets that the codec accepts, and for bytes that are nearly one.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use jetway::mqtt::{
    Ack, Auth, Connack, ConnackProperties, Connect, ConnectProperties, Disconnect, Packet,
    PacketId, Publish, PublishProperties, QoS, ReasonCode, Suback, Subscribe, Subscription,
    TopicFilter, TopicName, Unsuback, Unsubscribe, UserProperties, Version, Will,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// Packets of MQTT 5.
pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    prop_oneof![
        connect().prop_map(|connect| Packet::Connect(Box::new(connect))),
        connack().prop_map(Packet::Connack),
        publish().prop_map(Packet::Publish),
        ack(&[0x00, 0x10, 0x80, 0x97]).prop_map(Packet::Puback),
        ack(&[0x00, 0x10, 0x83, 0x91]).prop_map(Packet::Pubrec),
        ack(&[0x00, 0x92]).prop_map(Packet::Pubrel),
        ack(&[0x00, 0x92]).prop_map(Packet::Pubcomp),
        subscribe().prop_map(Packet::Subscribe),
        suback().prop_map(Packet::Suback),
        unsubscribe().prop_map(Packet::Unsubscribe),
        unsuback().prop_map(Packet::Unsuback),
        Just(Packet::Pingreq),
        Just(Packet::Pingresp),
        disconnect().prop_map(Packet::Disconnect),
        auth().prop_map(Packet::Auth),
    ]
}

/// Packets of 3.1.1: those of MQTT 5 without what only MQTT 5 can say.
pub(crate) fn packet_of_3_1_1() -> impl Strategy<Value = Packet> {
    packet().prop_map(|packet| match packet {
        Packet::Connect(connect) => Packet::Connect(Box::new(Connect {
            version: Version::V3_1_1,
            properties: ConnectProperties::default(),
            password: connect.password.filter(|_| connect.username.is_some()),
            will: connect.will.map(|will| Will {
                delay_interval: 0,
                properties: PublishProperties::default(),
                ..will
            }),
            ..*connect
        })),
        Packet::Connack(connack) => Packet::Connack(Connack {
            reason: match connack.reason.is_error() {
                true => ReasonCode::NotAuthorized,
                false => ReasonCode::Success,
            },
            properties: ConnackProperties::default(),
            ..connack
        }),
        Packet::Publish(publish) => Packet::Publish(Publish {
            topic: match publish.topic.is_empty() {
                true => "t".into(),
                false => publish.topic,
            },
            properties: PublishProperties::default(),
            ..publish
        }),
        Packet::Puback(ack) => Packet::Puback(bare(&ack)),
        Packet::Pubrec(ack) => Packet::Pubrec(bare(&ack)),
        Packet::Pubrel(ack) => Packet::Pubrel(bare(&ack)),
        Packet::Pubcomp(ack) => Packet::Pubcomp(bare(&ack)),
        Packet::Subscribe(subscribe) => Packet::Subscribe(subscribe_of_3_1_1(subscribe)),
        Packet::Suback(suback) => Packet::Suback(Suback {
            reasons: suback.reasons.into_iter().map(suback_3_1_1).collect(),
            reason_string: None,
            user: UserProperties::default(),
            ..suback
        }),
        Packet::Unsubscribe(unsubscribe) => Packet::Unsubscribe(Unsubscribe {
            user: UserProperties::default(),
            ..unsubscribe
        }),
        Packet::Unsuback(unsuback) => Packet::Unsuback(Unsuback {
            reasons: Vec::new(),
            reason_string: None,
            user: UserProperties::default(),
            ..unsuback
        }),
        Packet::Pingreq | Packet::Pingresp => packet,
        // 3.1.1 has no AUTH.
        Packet::Disconnect(_) | Packet::Auth(_) => {
            Packet::Disconnect(Disconnect::new(ReasonCode::Success))
        }
    })
}

fn bare(ack: &Ack) -> Ack {
    Ack::new(ack.packet_id, ReasonCode::Success)
}

fn suback_3_1_1(reason: ReasonCode) -> ReasonCode {
    match reason.is_error() {
        true => ReasonCode::UnspecifiedError,
        false => reason,
    }
}

fn subscribe_of_3_1_1(subscribe: Subscribe) -> Subscribe {
    let bare = |subscription| Subscription {
        no_local: false,
        retain_as_published: false,
        retain_handling: 0,
        ..subscription
    };
    Subscribe {
        identifier: None,
        filters: subscribe.filters.into_iter().map(bare).collect(),
        user: UserProperties::default(),
        ..subscribe
    }
}

/// Bytes, and packets with one byte changed, so that the decoders are reached behind the fixed header.
pub(crate) fn almost_packet() -> impl Strategy<Value = BytesMut> {
    let changed = (packet(), any::<prop::sample::Index>(), any::<u8>());
    let changed = changed.prop_map(|(packet, at, byte)| {
        let mut bytes = crate::wire::encode(Version::V5, &packet).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    let bytes = vec(any::<u8>(), 0..200).prop_map(|bytes| BytesMut::from(&bytes[..]));
    prop_oneof![changed, bytes]
}

fn text() -> impl Strategy<Value = ByteString> {
    prop_oneof![
        20 => "[^\0]{0,12}".prop_map(ByteString::from),
        1 => "[a-z]{65535}".prop_map(ByteString::from),
    ]
}

fn binary() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn user() -> impl Strategy<Value = UserProperties> {
    vec(("[^\0]{0,6}", "[^\0]{0,6}"), 0..4).prop_map(UserProperties::from_iter)
}

fn topic_name() -> impl Strategy<Value = ByteString> {
    "[^\0+#]{1,30}".prop_map(ByteString::from)
}

fn topic_filter() -> impl Strategy<Value = TopicFilter> {
    let filter = "(\\$share/[^/+#\0]{1,5}/)?([^+#/\0]{0,5}/|\\+/){0,4}(#|\\+|[^+#/\0]{1,5})";
    filter.prop_map(|filter| TopicFilter::try_from(ByteString::from(filter)).unwrap())
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId::new(id).unwrap())
}

fn qos() -> impl Strategy<Value = QoS> {
    select(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn reason(values: &'static [u8]) -> impl Strategy<Value = ReasonCode> {
    select(values).prop_map(|value| ReasonCode::from_value(value).unwrap())
}

fn publish_properties() -> impl Strategy<Value = PublishProperties> {
    let numbers = (of(0..=1_u8), of(any::<u32>()));
    let texts = (of(topic_name()), of(binary()), of(text()), user());
    (numbers, texts).prop_map(|(numbers, texts)| PublishProperties {
        payload_format_indicator: numbers.0,
        message_expiry_interval: numbers.1,
        topic_alias: None,
        response_topic: texts.0,
        correlation_data: texts.1,
        subscription_identifiers: Vec::new(),
        content_type: texts.2,
        user: texts.3,
    })
}

fn subscription_identifier() -> impl Strategy<Value = NonZeroU32> {
    (1..=268_435_455_u32).prop_map(|id| NonZeroU32::new(id).unwrap())
}

fn publish() -> impl Strategy<Value = Publish> {
    let flags = (any::<bool>(), qos(), any::<bool>(), packet_id());
    let alias = (any::<NonZeroU16>(), any::<bool>(), any::<bool>());
    let identifiers = vec(subscription_identifier(), 0..3);
    let parts = (
        flags,
        alias,
        identifiers,
        topic_name(),
        publish_properties(),
        binary(),
    );
    parts.prop_map(|(flags, alias, identifiers, topic, properties, payload)| {
        let (dup, qos, retain, id) = flags;
        let (alias, has_alias, has_topic) = alias;
        Publish {
            dup: dup && qos > QoS::AtMostOnce,
            qos,
            retain,
            topic: if has_topic || !has_alias {
                topic
            } else {
                ByteString::new()
            },
            packet_id: (qos > QoS::AtMostOnce).then_some(id),
            properties: PublishProperties {
                topic_alias: has_alias.then_some(alias),
                subscription_identifiers: identifiers,
                ..properties
            },
            payload,
        }
    })
}

fn will() -> impl Strategy<Value = Will> {
    let parts = (
        topic_name(),
        binary(),
        qos(),
        any::<bool>(),
        any::<u32>(),
        publish_properties(),
    );
    parts.prop_map(
        |(topic, payload, qos, retain, delay_interval, properties)| Will {
            topic: TopicName::try_from(topic).unwrap(),
            payload,
            qos,
            retain,
            delay_interval,
            properties,
        },
    )
}

fn connect() -> impl Strategy<Value = Connect> {
    let head = (
        any::<bool>(),
        any::<u16>(),
        text(),
        of(text()),
        of(binary()),
        of(will()),
    );
    (head, connect_properties()).prop_map(|(head, properties)| Connect {
        version: Version::V5,
        clean_start: head.0,
        keep_alive: head.1,
        client_id: head.2,
        username: head.3,
        password: head.4,
        will: head.5,
        properties,
    })
}

fn connect_properties() -> impl Strategy<Value = ConnectProperties> {
    let limits = (
        of(any::<u32>()),
        of(any::<NonZeroU16>()),
        of(any::<NonZeroU32>()),
        of(any::<u16>()),
    );
    let requests = (of(any::<bool>()), of(any::<bool>()));
    let authentication = of((text(), of(binary())));
    (limits, requests, authentication, user()).prop_map(
        |(limits, requests, authentication, user)| {
            let (method, data) = authentication.unzip();
            ConnectProperties {
                session_expiry_interval: limits.0,
                receive_maximum: limits.1,
                maximum_packet_size: limits.2,
                topic_alias_maximum: limits.3,
                request_response_information: requests.0,
                request_problem_information: requests.1,
                authentication_method: method,
                authentication_data: data.flatten(),
                user,
            }
        },
    )
}

fn connack() -> impl Strategy<Value = Connack> {
    let reason = reason(&[0x00, 0x80, 0x84, 0x87, 0x9d]);
    (any::<bool>(), reason, connack_properties()).prop_map(
        |(session_present, reason, properties)| Connack {
            session_present: session_present && reason == ReasonCode::Success,
            reason,
            properties,
        },
    )
}

fn connack_properties() -> impl Strategy<Value = ConnackProperties> {
    let limits = (
        of(any::<u32>()),
        of(any::<NonZeroU16>()),
        of(select(&[QoS::AtMostOnce, QoS::AtLeastOnce])),
        of(any::<NonZeroU32>()),
        of(any::<u16>()),
        of(any::<u16>()),
    );
    let flags = (
        of(any::<bool>()),
        of(any::<bool>()),
        of(any::<bool>()),
        of(any::<bool>()),
    );
    let texts = (
        of(text()),
        of(text()),
        of(text()),
        of(text()),
        of(text()),
        of(binary()),
    );
    (limits, flags, texts, user()).prop_map(|(limits, flags, texts, user)| ConnackProperties {
        session_expiry_interval: limits.0,
        receive_maximum: limits.1,
        maximum_qos: limits.2,
        retain_available: flags.0,
        maximum_packet_size: limits.3,
        assigned_client_identifier: texts.0,
        topic_alias_maximum: limits.4,
        reason_string: texts.1,
        user,
        wildcard_subscription_available: flags.1,
        subscription_identifiers_available: flags.2,
        shared_subscription_available: flags.3,
        server_keep_alive: limits.5,
        response_information: texts.2,
        server_reference: texts.3,
        authentication_method: texts.4,
        authentication_data: texts.5,
    })
}

fn ack(reasons: &'static [u8]) -> impl Strategy<Value = Ack> {
    (packet_id(), reason(reasons), of(text()), user()).prop_map(
        |(packet_id, reason, reason_string, user)| Ack {
            packet_id,
            reason,
            reason_string,
            user,
        },
    )
}

fn subscription() -> impl Strategy<Value = Subscription> {
    let parts = (topic_filter(), qos(), any::<bool>(), any::<bool>(), 0..3_u8);
    parts.prop_map(
        |(filter, qos, no_local, retain_as_published, retain_handling)| Subscription {
            no_local: no_local && !filter.is_shared(),
            filter,
            qos,
            retain_as_published,
            retain_handling,
        },
    )
}

fn subscribe() -> impl Strategy<Value = Subscribe> {
    let parts = (
        packet_id(),
        of(subscription_identifier()),
        vec(subscription(), 1..5),
        user(),
    );
    parts.prop_map(|(packet_id, identifier, filters, user)| Subscribe {
        packet_id,
        identifier,
        filters,
        user,
    })
}

fn suback() -> impl Strategy<Value = Suback> {
    let reasons = vec(reason(&[0x00, 0x01, 0x02, 0x80, 0x9e]), 1..5);
    (packet_id(), reasons, of(text()), user()).prop_map(
        |(packet_id, reasons, reason_string, user)| Suback {
            packet_id,
            reasons,
            reason_string,
            user,
        },
    )
}

fn unsubscribe() -> impl Strategy<Value = Unsubscribe> {
    (packet_id(), vec(topic_filter(), 1..5), user()).prop_map(|(packet_id, filters, user)| {
        Unsubscribe {
            packet_id,
            filters,
            user,
        }
    })
}

fn unsuback() -> impl Strategy<Value = Unsuback> {
    let reasons = vec(reason(&[0x00, 0x11, 0x87]), 1..5);
    (packet_id(), reasons, of(text()), user()).prop_map(
        |(packet_id, reasons, reason_string, user)| Unsuback {
            packet_id,
            reasons,
            reason_string,
            user,
        },
    )
}

fn disconnect() -> impl Strategy<Value = Disconnect> {
    let reason = reason(&[0x00, 0x04, 0x81, 0x8e, 0xa2]);
    (reason, of(any::<u32>()), of(text()), of(text()), user()).prop_map(
        |(reason, session_expiry_interval, server_reference, reason_string, user)| Disconnect {
            reason,
            session_expiry_interval,
            server_reference,
            reason_string,
            user,
        },
    )
}

fn auth() -> impl Strategy<Value = Auth> {
    let reason = reason(&[0x00, 0x18, 0x19]);
    (reason, text(), of(binary()), of(text()), user()).prop_map(
        |(reason, method, authentication_data, reason_string, user)| Auth {
            reason,
            authentication_method: Some(method),
            authentication_data,
            reason_string,
            user,
        },
    )
}
