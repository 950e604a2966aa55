//! What is counted: the hot path's steps one by one, and all of them together for one PUBLISH.
//!
//! Each case does its operation once without being counted, and then [`OPERATIONS`] times with it. Making what it works on is
//! not counted; dropping what comes out of it is.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use jetway_instructions::auth::acl::{Action, authorize};
use jetway_instructions::device::{Device, DeviceId, Scope};
use jetway_instructions::jetstream::wire;
use jetway_instructions::mapping::{Form, Mapping, Receipt, Route, Settings};
use jetway_instructions::message::{Headers, Message};
use jetway_instructions::mqtt::{
    Ack, Codec, Connect, ConnectProperties, Packet, PacketId, Publish, PublishProperties, QoS,
    ReasonCode, Subscribe, Subscription, TopicFilter, UserProperties, Version,
};
use jetway_instructions::session::connect::agree;
use jetway_instructions::session::{Config, Incoming, Output, Session, Source, Start};

/// Operations of a case that are counted.
pub(crate) const OPERATIONS: u16 = 64;
/// QoS 1 in flight together.
const WINDOW: u16 = 16;
const UP: &str = "$thing/up/property/demo01/device0001";
const DOWN: &str = "$thing/down/property/demo01/device0001";
/// As a shard's batches have it.
const REPLY: &str = "_jw.ack.0198c0de7a5b7c3e.0198c0de7a5b7c3e-4711.500.fail.";
const RECEIPT: Receipt<'static> = Receipt {
    id: "0198c0de7a5b7c3e-000000000017",
    received_ms: 1_754_000_000_123,
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
};

/// A case's name and how it is done.
type Case = (&'static str, fn());

pub(crate) const CASES: &[Case] = &[
    ("codec: decode PUBLISH, 3.1.1", || {
        decode(Version::V3_1_1, Packet::Publish(publish()))
    }),
    ("codec: decode PUBLISH, 5", || {
        decode(Version::V5, Packet::Publish(publish()))
    }),
    ("codec: decode PUBLISH, 5 with properties", || {
        decode(Version::V5, Packet::Publish(with_properties()))
    }),
    ("codec: decode PUBACK, 5", || decode(Version::V5, puback(1))),
    ("codec: decode CONNECT, 5", || {
        decode(Version::V5, connect())
    }),
    ("codec: encode PUBLISH, 3.1.1", || {
        encode(Version::V3_1_1, Packet::Publish(publish()))
    }),
    ("codec: encode PUBLISH, 5 with properties", || {
        encode(Version::V5, Packet::Publish(with_properties()))
    }),
    ("codec: encode PUBACK, 5", || encode(Version::V5, puback(1))),
    (
        "mapping: first PUBLISH of a topic, acl and route",
        first_of_topic,
    ),
    ("mapping: uplink, native", || {
        uplink(Form::Native, publish())
    }),
    ("mapping: uplink, native with properties", || {
        uplink(Form::Native, with_properties())
    }),
    ("mapping: uplink, protobuf", || {
        uplink(Form::Protobuf, publish())
    }),
    ("mapping: downlink", downlink),
    ("session: PUBLISH to PUBACK", session_uplink),
    ("session: downlink to PUBACK", session_downlink),
    ("publisher: encode", || encode_message(publish())),
    ("publisher: encode with properties", || {
        encode_message(with_properties())
    }),
    (
        "all: PUBLISH decoded to message encoded and PUBACK encoded",
        all,
    ),
];

/// Does every case in turn.
pub(crate) fn run() {
    for (_, case) in CASES {
        case();
    }
}

/// What callgrind counts within, by this name.
#[inline(never)]
fn counted(operations: &mut dyn FnMut()) {
    operations();
}

/// Does the operation on what `prepare` makes: once for what happens the first time only, and counted.
fn count<T>(mut prepare: impl FnMut() -> T, mut operation: impl FnMut(&mut T)) {
    operation(&mut prepare());
    let mut prepared = prepare();
    counted(&mut || operation(black_box(&mut prepared)));
}

fn codec(version: Version) -> Codec {
    let mut codec = Codec::new(1 << 20);
    codec.set_version(version);
    codec
}

/// What a device sends: [`OPERATIONS`] times the packet.
fn encoded(codec: &Codec, packet: &Packet) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(1 << 16);
    for _ in 0..OPERATIONS {
        codec.encode(packet, &mut bytes).expect("a valid packet");
    }
    bytes
}

fn decode(version: Version, packet: Packet) {
    let mut codec = codec(version);
    let bytes = encoded(&codec, &packet);
    count(
        || bytes.clone(),
        |bytes| {
            while let Ok(Some(packet)) = codec.decode(bytes) {
                black_box(packet);
            }
        },
    );
}

fn encode(version: Version, packet: Packet) {
    let codec = codec(version);
    count(
        || BytesMut::with_capacity(1 << 16),
        |bytes| {
            for _ in 0..OPERATIONS {
                codec.encode(&packet, bytes).expect("a valid packet");
            }
        },
    );
}

fn first_of_topic() {
    let (mapping, device) = (mapping(Form::Native), device());
    count(
        || UP,
        |topic| {
            for _ in 0..OPERATIONS {
                black_box(route(&mapping, &device, topic));
            }
        },
    );
}

fn uplink(form: Form, publish: Publish) {
    let route = route(&mapping(form), &device(), UP);
    count(
        || publish.clone(),
        |publish| {
            for _ in 0..OPERATIONS {
                black_box(mapped(&route, publish));
            }
        },
    );
}

fn downlink() {
    let mapping = mapping(Form::Native);
    let mut headers = Headers::default();
    headers.push("Nats-Stream", "DEVICE_DOWN");
    headers.push("Nats-Subject", "device.down.mqtt.thing.demo01.device0001");
    headers.push("Nats-Sequence", "4711");
    headers.push("Nats-Time-Stamp", "2026-01-01T00:00:00Z");
    headers.push("Nats-Last-Sequence", "4700");
    let payload = br#"{"method":"control","msgToken":"153","params":{"power":1,"mode":"auto"}}"#;
    let message = Message {
        subject: "device.down.mqtt.thing.demo01.device0001".into(),
        headers,
        payload: Bytes::from_static(payload),
    };
    count(
        || message.clone(),
        |message| {
            for _ in 0..OPERATIONS {
                black_box(mapping.downlink(message)).expect("a downlink");
            }
        },
    );
}

fn session_uplink() {
    let now = Instant::now();
    let mut session = session(now);
    count(
        || windows(UP),
        |windows| {
            for window in windows.drain(..) {
                for publish in window {
                    let fed = session.handle_packet(now, Packet::Publish(publish));
                    fed.expect("the window has room");
                    drain(&mut session);
                }
                session.handle_stored(WINDOW.into());
                drain(&mut session);
            }
        },
    );
    assert!(session.is_settled(), "every PUBLISH has its PUBACK");
}

fn session_downlink() {
    let now = Instant::now();
    let mut session = session(now);
    let filter = ByteString::from_static("$thing/down/+/demo01/device0001");
    let subscribe = Subscribe {
        packet_id: packet_id(1),
        identifier: None,
        filters: vec![Subscription {
            filter: TopicFilter::try_from(filter).expect("a topic filter"),
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: 2,
        }],
        user: UserProperties::default(),
    };
    session.handle_authorized(subscribe, |_| Ok(0));
    drain(&mut session);
    count(
        || windows(DOWN),
        |windows| {
            for publish in windows.drain(..).flatten() {
                let source = Source::Stream(session.taken() + 1);
                session.handle_downlink(Incoming {
                    publish,
                    source,
                    own: false,
                });
                while let Some(output) = session.poll_output() {
                    if let Output::Send(Packet::Publish(publish)) = output {
                        let id = publish.packet_id.expect("QoS 1 has a packet identifier");
                        let ack = Packet::Puback(Ack::new(id, ReasonCode::Success));
                        session.handle_packet(now, ack).expect("an expected PUBACK");
                    }
                }
            }
        },
    );
    assert!(session.has_room(), "every PUBLISH was acknowledged");
}

fn encode_message(publish: Publish) {
    let message = mapped(&route(&mapping(Form::Native), &device(), UP), &publish);
    count(
        || BytesMut::with_capacity(1 << 17),
        |bytes| {
            for number in 1..=OPERATIONS {
                wire::publish(bytes, REPLY, number.into(), black_box(&message));
            }
        },
    );
}

/// As a connection does it: what was read is decoded, each PUBLISH becomes a message in the shard's buffer, and when the stream
/// has a window of them their PUBACKs leave.
fn all() {
    let now = Instant::now();
    let mut codec = codec(Version::V5);
    let (route, mut session) = (route(&mapping(Form::Native), &device(), UP), session(now));
    let read = encoded(&codec, &Packet::Publish(publish()));
    count(
        || {
            (
                read.clone(),
                BytesMut::with_capacity(1 << 17),
                BytesMut::with_capacity(1 << 12),
            )
        },
        |(read, messages, pubacks)| {
            let mut number = 0;
            while let Ok(Some(packet)) = codec.decode(read) {
                session
                    .handle_packet(now, packet)
                    .expect("the window has room");
                while let Some(output) = session.poll_output() {
                    if let Output::Publish { publish, .. } = output {
                        number += 1;
                        assert_eq!(route.topic(), &*publish.topic, "how a route is found");
                        let message = mapped(&route, &publish);
                        wire::publish(messages, REPLY, number, &message);
                    }
                }
                if number % u64::from(WINDOW) == 0 {
                    session.handle_stored(WINDOW.into());
                    while let Some(output) = session.poll_output() {
                        if let Output::Send(packet) = output {
                            codec.encode(&packet, pubacks).expect("a PUBACK");
                        }
                    }
                }
            }
            assert_eq!(
                number,
                u64::from(OPERATIONS),
                "every PUBLISH became a message"
            );
        },
    );
    assert!(session.is_settled(), "every PUBLISH has its PUBACK");
}

fn route(mapping: &Mapping, device: &Device, topic: &str) -> Route {
    let address = mapping.address(topic);
    authorize(device, Action::Publish, address.as_ref()).expect("its own topic");
    let address = address.expect("a topic of the rules");
    mapping.route(&device.id, &address).expect("an uplink")
}

fn mapped(route: &Route, publish: &Publish) -> Message {
    let uplink = route.uplink(publish, &RECEIPT);
    uplink.expect("headers of an ordinary length").message
}

fn mapping(form: Form) -> Mapping {
    let settings = Settings {
        forms: [("thing".to_owned(), form)].into(),
        ..Settings::default()
    };
    Mapping::load(&settings, None).expect("the rules that come with the gateway")
}

fn device() -> Device {
    Device {
        id: DeviceId::new("demo01", "device0001").expect("ordinary names"),
        scope: Scope::Full,
        sub_devices: [].into(),
        access: None,
    }
}

fn session(now: Instant) -> Session {
    let config = Config::default();
    let Packet::Connect(connect) = connect() else {
        unreachable!("it is a CONNECT");
    };
    let agreement = agree(&connect, &config).expect("an ordinary CONNECT");
    let start = Start {
        id: "session".into(),
        restored: None,
        stored: false,
        stream: Arc::default(),
    };
    let mut session = Session::new(agreement, &Arc::new(config), start, now);
    drain(&mut session);
    session
}

fn drain(session: &mut Session) {
    while let Some(output) = session.poll_output() {
        if matches!(black_box(output), Output::Save(_)) {
            session.handle_saved();
        }
    }
}

fn packet_id(number: u16) -> PacketId {
    PacketId::new(number).expect("above 0")
}

fn puback(number: u16) -> Packet {
    Packet::Puback(Ack::new(packet_id(number), ReasonCode::Success))
}

fn connect() -> Packet {
    Packet::Connect(Box::new(Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive: 60,
        client_id: "demo01&device0001".into(),
        username: Some("demo01device0001;12010126;abcde;1893456000".into()),
        password: Some(Bytes::from(vec![b'f'; 80])),
        will: None,
        properties: ConnectProperties::default(),
    }))
}

fn publish() -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: UP.into(),
        packet_id: Some(packet_id(1)),
        properties: PublishProperties::default(),
        payload: Bytes::from(vec![b'x'; 256]),
    }
}

fn with_properties() -> Publish {
    Publish {
        properties: PublishProperties {
            payload_format_indicator: Some(1),
            message_expiry_interval: Some(60),
            content_type: Some("application/json".into()),
            user: [("colour", "red"), ("firmware", "1.2.3")]
                .into_iter()
                .collect(),
            ..PublishProperties::default()
        },
        ..publish()
    }
}

/// PUBLISH packets with the packet identifiers from 1, [`OPERATIONS`] altogether.
fn windows(topic: &str) -> Vec<Vec<Publish>> {
    let of_one = |number| Publish {
        topic: topic.into(),
        packet_id: Some(packet_id(number)),
        ..publish()
    };
    (0..OPERATIONS / WINDOW)
        .map(|_| (1..=WINDOW).map(of_one).collect())
        .collect()
}
