//! Codec: nanoseconds per packet, decoding and encoding, both versions.
//!
//! Decoding takes packets off a buffer of many, as a connection's read buffer holds them; filling that buffer is not
//! measured. Encoding appends to a buffer that has room.

use std::hint::black_box;
use std::num::NonZeroU16;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jetway::mqtt::{
    Ack, Codec, Connect, ConnectProperties, Packet, PacketId, Publish, PublishProperties, QoS,
    ReasonCode, Version,
};

/// Packets per buffer.
const PACKETS: usize = 64;

fn codec(version: Version) -> Codec {
    let mut codec = Codec::new(1 << 20);
    codec.set_version(version);
    codec
}

fn publish(properties: PublishProperties) -> Packet {
    Packet::Publish(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "$thing/up/property/product1/device00001".into(),
        packet_id: PacketId::new(1),
        properties,
        payload: Bytes::from(vec![b'x'; 256]),
    })
}

fn properties() -> PublishProperties {
    PublishProperties {
        payload_format_indicator: Some(1),
        message_expiry_interval: Some(60),
        content_type: Some("application/json".into()),
        user: [
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-01"),
            ("unit", "celsius"),
        ]
        .into_iter()
        .collect(),
        ..PublishProperties::default()
    }
}

fn connect(version: Version) -> Packet {
    Packet::Connect(Box::new(Connect {
        version,
        clean_start: true,
        keep_alive: 60,
        client_id: "product1&device00001".into(),
        username: Some("product1device00001;12010126;abcde;1893456000".into()),
        password: Some(Bytes::from(vec![b'f'; 80])),
        will: None,
        properties: match version {
            Version::V3_1_1 => ConnectProperties::default(),
            Version::V5 => ConnectProperties {
                session_expiry_interval: Some(3600),
                receive_maximum: NonZeroU16::new(16),
                ..ConnectProperties::default()
            },
        },
    }))
}

fn cases() -> Vec<(&'static str, Version, Packet)> {
    let puback = PacketId::new(1).map(|id| Packet::Puback(Ack::new(id, ReasonCode::Success)));
    let puback = puback.expect("1 is a packet identifier");
    let plain = PublishProperties::default;
    vec![
        ("publish_256/3.1.1", Version::V3_1_1, publish(plain())),
        ("publish_256/5", Version::V5, publish(plain())),
        (
            "publish_256/5_properties",
            Version::V5,
            publish(properties()),
        ),
        ("connect/3.1.1", Version::V3_1_1, connect(Version::V3_1_1)),
        ("connect/5", Version::V5, connect(Version::V5)),
        ("puback/3.1.1", Version::V3_1_1, puback.clone()),
        ("puback/5", Version::V5, puback),
    ]
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for (name, version, packet) in cases() {
        let mut codec = codec(version);
        let mut buffer = BytesMut::new();
        for _ in 0..PACKETS {
            codec.encode(&packet, &mut buffer).expect("a valid packet");
        }
        let fill = || {
            let mut src = BytesMut::with_capacity(buffer.len());
            src.extend_from_slice(&buffer);
            src
        };
        let mut run = |mut src: BytesMut| {
            while let Ok(Some(packet)) = codec.decode(&mut src) {
                black_box(packet);
            }
            src
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(fill, &mut run, BatchSize::SmallInput);
        });
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for (name, version, packet) in cases() {
        let codec = codec(version);
        let mut dst = BytesMut::with_capacity(1 << 16);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                dst.clear();
                for _ in 0..PACKETS {
                    codec
                        .encode(black_box(&packet), &mut dst)
                        .expect("a valid packet");
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
