//! ns/op of reading thing-model messages: what every report costs the events worker before anything is stored.
//!
//! `cargo bench --bench thing`

#![allow(clippy::unwrap_used, reason = "a bench stops at the first fault")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jetway::device::DeviceId;
use jetway::thing::{Knowledge, Model, Origin, Settings, interpret};

/// 201 bytes.
const REPORT: &[u8] = br#"{"method":"report","msgToken":"t1234567","timestamp":1754000000123,"params":{"temperature":21.5,"humidity":48,"power":true,"mode":"auto","battery":3.71,"rssi":-67,"position":{"lon":116.39,"lat":39.9}}}"#;

const MODEL: &[u8] = br#"{"reply": ["property"], "schema": {"properties": [
    {"id": "temperature", "type": "float", "min": -40, "max": 85, "step": 0.1}, {"id": "humidity", "type": "int", "min": 0, "max": 100},
    {"id": "power", "type": "bool"}, {"id": "mode", "type": "enum", "mapping": {"auto": "", "man": ""}},
    {"id": "battery", "type": "float"}, {"id": "rssi", "type": "int"},
    {"id": "position", "type": "struct", "specs": [{"id": "lon", "type": "float"}, {"id": "lat", "type": "float"}]}]}}"#;

fn reports(criterion: &mut Criterion) {
    let device = DeviceId::new("demo01", "device0001").unwrap();
    let origin = Origin {
        device: &device,
        type_: "property",
        handle: "thing",
        received_ms: 1_754_000_000_500,
        stream: "DEVICE_UP",
        sequence: 123_456,
        trace_id: "0af7651916cd43dd8448eb211c80319c",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        downlink: false,
    };
    let model = Arc::new(Model::parse(MODEL).unwrap());
    let payload = Bytes::from_static(REPORT);
    let mut group = criterion.benchmark_group("thing");
    group.throughput(Throughput::Elements(1));
    for (name, each_property, model) in [
        ("report", false, None),
        ("report, model and reply", false, Some(&model)),
        ("report, model and reply, each property", true, Some(&model)),
    ] {
        let settings = Settings {
            each_property,
            ..Settings::default()
        };
        let knowledge = Knowledge {
            model: &|_| model.cloned(),
            may_act_for: &|_| false,
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| interpret(black_box(&payload), &origin, &settings, &knowledge));
        });
    }
    group.finish();
}

criterion_group!(benches, reports);
criterion_main!(benches);
