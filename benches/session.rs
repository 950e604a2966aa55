//! Session: nanoseconds per message through the state machine, without codec and socket.
//!
//! An uplink is a QoS 1 PUBLISH in, the message out, "stored" in, the PUBACK out. A downlink is the message in, the
//! PUBLISH out, the PUBACK in. Making the packets is not measured.
//!
//! `cargo bench --bench session`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use bytestring::ByteString;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jetway::mqtt::{
    Ack, Connect, ConnectProperties, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode,
    Subscribe, Subscription, TopicFilter, UserProperties, Version,
};
use jetway::session::connect::agree;
use jetway::session::{Config, Delivered, Incoming, Output, Session, Source, Start};

/// Messages that are in the window together.
const WINDOW: u16 = 16;

fn session(now: Instant) -> Session {
    let config = Config::default();
    let connect = Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive: 60,
        client_id: "demo01&device0001".into(),
        username: None,
        password: None,
        will: None,
        properties: ConnectProperties::default(),
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

/// One window of PUBLISH packets with the packet identifiers from 1.
fn window(topic: &str) -> Vec<Publish> {
    let publish = |id| Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: PacketId::new(id),
        properties: PublishProperties::default(),
        payload: Bytes::from_static(&[b'x'; 256]),
    };
    (1..=WINDOW).map(publish).collect()
}

fn uplink(criterion: &mut Criterion) {
    let now = Instant::now();
    let mut session = session(now);
    let mut group = criterion.benchmark_group("session");
    group.throughput(Throughput::Elements(WINDOW.into()));
    group.bench_function("16 uplinks, PUBLISH to PUBACK", |bencher| {
        bencher.iter_batched(
            || window("$thing/up/property/demo01/device0001"),
            |packets| {
                for publish in packets {
                    let fed = session.handle_packet(now, Packet::Publish(publish));
                    fed.expect("the window has room");
                    drain(&mut session);
                }
                session.handle_stored(WINDOW.into());
                drain(&mut session);
            },
            BatchSize::SmallInput,
        );
    });
    assert!(session.is_settled(), "every PUBLISH has its PUBACK");
    group.finish();
}

fn downlink(criterion: &mut Criterion) {
    let now = Instant::now();
    let mut session = session(now);
    let filter = ByteString::from_static("$thing/down/+/demo01/device0001");
    let subscribe = Subscribe {
        packet_id: PacketId::new(1).expect("1 is a packet identifier"),
        identifier: None,
        filters: vec![Subscription {
            filter: TopicFilter::try_from(filter).expect("a topic filter"),
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: 2, // retained messages are of no interest here
        }],
        user: UserProperties::default(),
    };
    session.handle_authorized(subscribe, |_| Ok(0));
    drain(&mut session);

    let mut group = criterion.benchmark_group("session");
    group.throughput(Throughput::Elements(WINDOW.into()));
    group.bench_function("16 downlinks, message to PUBACK", |bencher| {
        bencher.iter_batched(
            || window("$thing/down/property/demo01/device0001"),
            |messages| {
                for publish in messages {
                    let incoming = Incoming {
                        publish,
                        source: Source::Stream(session.taken() + 1),
                        own: false,
                    };
                    let delivered = session.handle_downlink(incoming);
                    let sent = Delivered::Sent(QoS::AtLeastOnce);
                    assert_eq!(delivered, sent, "the filter matches");
                }
                while let Some(output) = session.poll_output() {
                    let publish = match output {
                        Output::Send(Packet::Publish(publish)) => publish,
                        Output::Settled { .. } => continue,
                        other => panic!("expected a PUBLISH, found {other:?}"),
                    };
                    let id = publish.packet_id.expect("QoS 1 has a packet identifier");
                    let ack = Packet::Puback(Ack::new(id, ReasonCode::Success));
                    let fed = session.handle_packet(now, ack);
                    fed.expect("a PUBACK breaks no rule");
                }
            },
            BatchSize::SmallInput,
        );
    });
    assert!(session.has_room(), "every PUBLISH was acknowledged");
    group.finish();
}

criterion_group!(benches, uplink, downlink);
criterion_main!(benches);
