//! Messages by their methods: batches and their devices, static positions, and what has no position to give.

use bytes::Bytes;
use serde_json::json;

use super::extraction::tests::{RECEIVED_MS, extracted, rules};
use super::*;
use crate::device::DeviceId;

#[test]
fn a_batch_has_its_own_times_and_devices_and_a_bad_point_costs_itself() {
    let message = json!({"method": "packReport", "timestamp": RECEIVED_MS, "properties": [
        {"timestamp": RECEIVED_MS - 3000, "params": {"lat": 1, "lon": 1}},
        {"timestamp": RECEIVED_MS - 9000, "params": {"lat": 2, "lon": 1}},
        {"timestamp": RECEIVED_MS - 1000, "params": {"lat": 200, "lon": 1}},
        {"params": {"lat": 4, "lon": 1}},
        {"params": {"temp": 4}},
        {"timestamp": 3},
        7,
        {"timestamp": RECEIVED_MS, "params": {"lat": 8, "lon": 1}},
    ], "subDevices": [
        {"productID": "S", "deviceName": "s", "properties": [{"timestamp": RECEIVED_MS, "params": {"lat": 9, "lon": 1}}]},
        {"productID": "U", "deviceName": "u", "properties": [{"params": {"lat": 10, "lon": 1}}, {}]},
        {"productID": "a/b", "deviceName": "u", "properties": [{"params": {"lat": 12, "lon": 1}}]},
        {"productID": "S", "deviceName": "t", "properties": [{"timestamp": RECEIVED_MS, "params": {"lat": 13, "lon": 1}}]},
    ], "events": [{"eventID": "low", "params": {"lat": 1, "lon": 1}}]});
    let extraction = extracted(&message.to_string());
    let brief = |report: &Report| {
        let behind = report.device_ms.map(|at| RECEIVED_MS - at);
        (
            report.device.to_string(),
            report.index / 256,
            report.latitude,
            behind,
        )
    };
    let found: Vec<_> = extraction.reports.iter().map(brief).collect();
    let device = || "P/D".to_owned();
    let expected = [
        (device(), 0, 1.0, Some(3000)),
        (device(), 1, 2.0, Some(9000)),
        (device(), 3, 4.0, None),
        (device(), 7, 8.0, Some(0)),
        ("S/s".to_owned(), 8, 9.0, Some(0)),
        // The entries of a device that is not bound keep their numbers.
        ("S/t".to_owned(), 12, 13.0, Some(0)),
    ];
    assert_eq!(found, expected);
    let faults: Vec<_> = extraction.faults.iter().map(|fault| &*fault.path).collect();
    assert_eq!(faults, ["/properties/2/params/lat"]);
    assert!(extraction.reports[2].flags.contains(Flags::NO_TIME));
}

#[test]
fn the_fixes_of_a_text_are_numbered_in_their_entry() {
    let rmc = "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,190302,003.1,W*6C\\r\\n";
    let message = format!(
        r#"{{"method":"packReport","properties":[{{"params":{{}}}},{{"params":{{"n":"{rmc}{rmc}"}}}},{{"params":{{"lat":1,"lon":1}}}}]}}"#
    );
    let extraction = extracted(&message);
    let indices: Vec<_> = extraction
        .reports
        .iter()
        .map(|report| report.index)
        .collect();
    assert_eq!(indices, [256, 257, 512]);
    assert_eq!(extraction.reports[0].device_ms, Some(1_016_541_319_000));
}

#[test]
fn a_static_position_is_that_of_the_property_position() {
    let message = r#"{"method":"reportInfo","params":{"imei":"1","tags":{"lat":1,"lon":2},
        "position":{"coordinateSystem":"GCJ02","longitude":"116.4","latitude":39.9}}}"#;
    let report = extracted(message).reports.remove(0);
    assert_eq!(
        (report.latitude, report.longitude, report.system),
        (39.9, 116.4, System::Gcj02)
    );
    assert_eq!(report.flags, Flags::NO_TIME);
    for message in [
        r#"{"method":"reportInfo","params":{"tags":{"lat":1,"lon":2}}}"#,
        r#"{"method":"reportInfo","params":{"lat":1,"lon":2}}"#,
    ] {
        assert_eq!(extracted(message), Extraction::default());
    }
}

#[test]
fn everything_else_gives_nothing_and_no_fault() {
    for payload in [
        r#"{"method":"getReportReply","code":200,"data":{"lat":1,"lon":2}}"#,
        r#"{"method":"controlReply","params":{"lat":1,"lon":200}}"#,
        r#"{"method":"report","params":[{"lat":1,"lon":200}]}"#,
        r#"{"method":"report","data":{"lat":1,"lon":200}}"#,
        r#"{"method":"report","params":{"text":"latitude","lateral":{"longest":1}}}"#,
        r#"{"params":{"lat":1,"lon":200}}"#,
        r#"{"method":7,"params":{"lat":1,"lon":200}}"#,
        r#"{"method":"packReport","properties":{"lat":1}}"#,
        r#"{"method":"packReport","subDevices":7,"lat":1}"#,
        r#"[{"lat":1}]"#,
        r#"{"method":"report","params":{"lat":1,"lat":2,"lon":3}}"#,
        r#"{"method":"report","params":{"lat":NaN,"lon":3}}"#,
        r#"{"method":"report","params":{"lat":1,"#,
        r#"{"method":"report","params":{"p":{"coordinates":[1,200]}}}"#,
        r#"{"method":"report","params":{"at":{"deeper":{"lat":1,"lon":2}}}}"#,
        "\u{feff}{\"lat\":1}",
        "",
    ] {
        assert_eq!(extracted(payload), Extraction::default(), "{payload}");
    }
    let device = DeviceId::new("P", "D").unwrap();
    let payload = Bytes::from_static(br#"{"method":"report","params":{"lat":1,"lon":2}}"#);
    for (handle, type_) in [
        ("thing", "event"),
        ("thing", "action"),
        ("ext", "property"),
        ("log", "report"),
    ] {
        let source = Source {
            device: &device,
            type_,
            handle,
            received_ms: RECEIVED_MS,
        };
        let extraction = extract(&payload, &source, &rules(""), &|_| true);
        assert_eq!(extraction, Extraction::default());
    }
}
