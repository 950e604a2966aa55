//! ns/op of the mapping: what every PUBLISH and every downlink pays.
//!
//! `cargo bench --bench mapping`

#![allow(clippy::unwrap_used, reason = "a bench stops at the first fault")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use jetway::auth::acl::{Action, authorize};
use jetway::device::{Device, DeviceId, Scope};
use jetway::mapping::{Form, Mapping, Receipt, Settings};
use jetway::message::{Headers, Message};
use jetway::mqtt::{Publish, PublishProperties, QoS};

const TOPIC: &str = "$thing/up/property/demo01/device0001";

const RECEIPT: Receipt<'static> = Receipt {
    id: "0198c0de7a5b7c3e-000000000017",
    received_ms: 1_754_000_000_123,
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
};

fn publish(properties: PublishProperties) -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: TOPIC.into(),
        packet_id: None,
        properties,
        payload: Bytes::from(vec![b'x'; 256]),
    }
}

fn mqtt5() -> PublishProperties {
    PublishProperties {
        content_type: Some("application/json".into()),
        user: [("colour", "red"), ("firmware", "1.2.3")]
            .into_iter()
            .collect(),
        ..PublishProperties::default()
    }
}

fn uplink(criterion: &mut Criterion) {
    let id = DeviceId::new("demo01", "device0001").unwrap();
    let device = Device {
        id: id.clone(),
        scope: Scope::Full,
        sub_devices: [].into(),
        access: None,
    };
    let native = Mapping::load(&Settings::default(), None).unwrap();
    let forms = [("thing".to_owned(), Form::Protobuf)].into();
    let protobuf = Mapping::load(
        &Settings {
            forms,
            ..Settings::default()
        },
        None,
    )
    .unwrap();
    let mut group = criterion.benchmark_group("mapping");
    group.bench_function("address and acl", |bencher| {
        bencher.iter(|| {
            authorize(
                &device,
                Action::Publish,
                native.address(black_box(TOPIC)).as_ref(),
            )
        });
    });
    for (name, mapping, publish) in [
        (
            "address and uplink, native",
            &native,
            publish(PublishProperties::default()),
        ),
        (
            "address and uplink, native, MQTT 5 properties",
            &native,
            publish(mqtt5()),
        ),
        (
            "address and uplink, protobuf",
            &protobuf,
            publish(PublishProperties::default()),
        ),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let address = mapping.address(black_box(&publish.topic)).unwrap();
                mapping.uplink(&id, &address, &publish, &RECEIPT).unwrap()
            });
        });
    }
    group.finish();
}

fn downlink(criterion: &mut Criterion) {
    let mapping = Mapping::load(&Settings::default(), None).unwrap();
    let mut headers = Headers::default();
    headers.push("Nats-Stream", "DEVICE_DOWN");
    headers.push("Nats-Subject", "device.down.mqtt.thing.demo01.device0001");
    headers.push("Nats-Sequence", "4711");
    headers.push("Nats-Time-Stamp", "2026-01-01T00:00:00Z");
    headers.push("Nats-Last-Sequence", "4700");
    let payload =
        br#"{"method":"control","msgToken":"153","params":{"power":1,"mode":"auto","limit":21.5}}"#;
    let message = Message {
        subject: "device.down.mqtt.thing.demo01.device0001".into(),
        headers,
        payload: Bytes::from_static(payload),
    };
    let mut group = criterion.benchmark_group("mapping");
    let subject = "device.down.mqtt.thing.demo01.device0001";
    group.bench_function("device of a downlink", |bencher| {
        bencher.iter(|| mapping.receiver(black_box(subject)).unwrap());
    });
    group.bench_function("downlink, type by method", |bencher| {
        bencher.iter(|| mapping.downlink(black_box(&message)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, uplink, downlink);
criterion_main!(benches);
