//! ns/op of finding positions in reports: what every uplink costs the GPS worker before anything is written.
//!
//! `cargo bench --bench position`

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops at the first fault"
)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jetway::device::DeviceId;
use jetway::position::{
    Fix, Point, Rules, SHIPPED, Settings, Source, Track, TripConfig, Watching, extract,
};

const RECEIVED_MS: u64 = 1_754_000_000_500;

/// 200 bytes without a position.
const WITHOUT: &str = r#"{"method":"report","msgToken":"t1234567","timestamp":1754000000123,"params":{"temperature":21.5,"humidity":48,"power":true,"mode":"auto","battery":3.71,"rssi":-67,"latency_ms":12,"lateral_g":0.113}}"#;
/// The same with one.
const WITH: &str = r#"{"method":"report","msgToken":"t1234567","timestamp":1754000000123,"params":{"temperature":21.5,"humidity":48,"power":true,"mode":"auto","battery":3.71,"rssi":-67,"GPS_Info":{"longtitude":116.397428,"latitude":39.90923}}}"#;
const NMEA: &str = r#"{"method":"report","timestamp":1754000000123,"params":{"nmea":"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,010825,,,A\r\n"}}"#;

fn messages(criterion: &mut Criterion) {
    let device = DeviceId::new("demo01", "device0001").unwrap();
    let source = Source {
        device: &device,
        type_: "property",
        handle: "thing",
        received_ms: RECEIVED_MS,
    };
    let rules = Rules::load(SHIPPED, None, Settings::default()).unwrap();
    let points: Vec<String> = (0..100)
        .map(|second| {
            let timestamp = RECEIVED_MS - 100_000 + second * 1000;
            format!(r#"{{"timestamp":{timestamp},"params":{{"GPS_ExtInfo":{{"longtitude":116.397428,"latitude":39.909{second},"altitude":43.5,"gps_speed":36.2,"direction":181.5,"location_state":1,"satellites":11}}}}}}"#)
        })
        .collect();
    let pack = format!(
        r#"{{"method":"packReport","properties":[{}]}}"#,
        points.join(",")
    );
    let mut group = criterion.benchmark_group("position");
    for (name, payload, reports) in [
        ("report without a position", WITHOUT, 0),
        ("report with a position", WITH, 1),
        ("NMEA, GGA and RMC", NMEA, 1),
        ("packReport of 100", &pack, 100),
    ] {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let found = extract(&payload, &source, &rules, &|_| false);
        assert_eq!(
            (found.reports.len(), found.faults.len()),
            (reports, 0),
            "{name}"
        );
        group.throughput(Throughput::Elements(u64::try_from(reports.max(1)).unwrap()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| extract(black_box(&payload), &source, &rules, &|_| false));
        });
    }
    let report = extract(
        &Bytes::from_static(WITH.as_bytes()),
        &source,
        &rules,
        &|_| false,
    );
    let watching = Watching {
        trip: Some(TripConfig::default()),
        ..Watching::default()
    };
    let Point {
        latitude,
        longitude,
    } = report.reports[0].point();
    let track = Track::since(Fix {
        at_ms: 1,
        latitude,
        longitude,
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("step of a track with trips", |bencher| {
        bencher.iter(|| track.clone().step(black_box(&report.reports[0]), &watching));
    });
    group.finish();
}

criterion_group!(benches, messages);
criterion_main!(benches);
