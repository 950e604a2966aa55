//! Messages to reports: shapes, units, systems, flags, faults, batches, and the recorded tracks bit for bit.

use super::*;
use crate::position::convert::System;
use crate::position::rules::{SHIPPED, Settings};

pub(in crate::position) const RECEIVED_MS: u64 = 1_754_000_000_000;

pub(in crate::position) fn rules(own: &str) -> Rules {
    Rules::load(SHIPPED, Some(("own.toml", own)), Settings::default()).unwrap()
}

pub(in crate::position) fn extract_with(rules: &Rules, payload: &str) -> Extraction {
    let device = DeviceId::new("P", "D").unwrap();
    let source = Source {
        device: &device,
        type_: "property",
        handle: "thing",
        received_ms: RECEIVED_MS,
    };
    let bound = |other: &DeviceId| other.product() == "S";
    extract(
        &Bytes::copy_from_slice(payload.as_bytes()),
        &source,
        rules,
        &bound,
    )
}

pub(in crate::position) fn extracted(payload: &str) -> Extraction {
    extract_with(&rules(""), payload)
}

/// A report with some parameters, of now.
fn reported(params: &str) -> Extraction {
    extracted(&format!(
        r#"{{"method":"report","timestamp":{RECEIVED_MS},"params":{params}}}"#
    ))
}

fn one(params: &str) -> Report {
    let mut extraction = reported(params);
    assert_eq!(extraction.faults, [], "{params}");
    assert_eq!(extraction.reports.len(), 1, "{params}");
    extraction.reports.remove(0)
}

fn fault(params: &str) -> (String, String) {
    let mut extraction = reported(params);
    assert_eq!(extraction.reports, [], "{params}");
    assert_eq!(extraction.faults.len(), 1, "{params}");
    let fault = extraction.faults.remove(0);
    (fault.reason.to_owned(), fault.path)
}

#[test]
fn the_shapes_in_use() {
    for params in [
        r#"{"longitude":13.7142099626,"latitude":45.2735188510}"#,
        r#"{"lng":13.7142099626,"lat":45.2735188510}"#,
        r#"{"lon":13.7142099626,"lat":45.2735188510}"#,
        r#"{"longtitude":13.7142099626,"latitude":45.2735188510}"#,
        r#"{"lon":"13.7142099626","lat":" 45.2735188510 "}"#,
        r#"{"lon":1.37142099626e1,"lat":452735188510e-10}"#,
        r#"{"GPS_Info":{"longtitude":13.7142099626,"latitude":45.2735188510}}"#,
        r#"{"temp":1,"GPS_ExtInfo":{"latitude":45.2735188510,"longtitude":13.7142099626,"satellites":null}}"#,
        r#"{"GPS_Ext":{"longitude":13.7142099626,"latitude":45.2735188510},"GPS_Info":{"longtitude":1,"latitude":2}}"#,
        r#"{"position":{"longitude":13.7142099626,"latitude":45.2735188510}}"#,
        r#"{"anything":{"lat":45.2735188510,"lng":13.7142099626}}"#,
        r#"{"type":"Point","coordinates":[13.7142099626,45.2735188510]}"#,
        r#"{"where":{"type":"Point","coordinates":[13.7142099626,45.2735188510]}}"#,
        r#"{"where":{"type":"Feature","geometry":{"type":"Point","coordinates":[13.7142099626,45.2735188510]}}}"#,
        // Half a position and nothing beside a whole one.
        r#"{"lat":5,"GPS_Info":{"longtitude":13.7142099626,"latitude":45.2735188510}}"#,
        r#"{"GPS_Ext":{"longitude":null,"latitude":null},"GPS_Info":{"longtitude":13.7142099626,"latitude":45.2735188510}}"#,
        r#"{"l\u0061t":45.2735188510,"lng":13.7142099626}"#,
    ] {
        let report = one(params);
        assert_eq!(
            (report.latitude, report.longitude),
            (45.273_518_851_0, 13.714_209_962_6),
            "{params}"
        );
        assert_eq!(report.flags, Flags::NONE);
        assert_eq!((report.index, report.system), (0, System::Wgs84));
        assert_eq!(report.device.to_string(), "P/D");
        assert_eq!(
            (report.device_ms, report.received_ms),
            (Some(RECEIVED_MS), RECEIVED_MS)
        );
    }
}

#[test]
fn what_stands_beside_the_coordinates() {
    let report = one(
        r#"{"GPS_ExtInfo":{"latitude":45.5,"longtitude":13.5,"altitude":"211.15","gps_speed":36,"direction":359.9,
            "location_state":1,"satellites":11,"hdop":0.8,"accuracy":4.5,"gps_time":"1753999990","collect_time":1}}"#,
    );
    assert_eq!(report.altitude_m, Some(211.15));
    assert_eq!(report.speed_mps, Some(10.0));
    assert_eq!(report.course_deg, Some(359.9));
    assert_eq!(report.satellites, Some(11));
    assert_eq!(report.hdop, Some(0.8));
    assert_eq!(report.accuracy_m, Some(4.5));
    assert_eq!(report.device_ms, Some(1_753_999_990_000));
    assert_eq!(report.flags, Flags::NONE);
    assert_eq!(
        one(r#"{"lat":1,"lon":2,"speed":12.34}"#).speed_mps,
        Some(12.34)
    );
    let knots = one(r#"{"lat":1,"lon":2,"speed_knots":10}"#).speed_mps;
    assert_eq!(knots, Some(10.0 * 1852.0 / 3600.0));
    let report = one(r#"{"p":{"type":"Point","coordinates":[2,1,300.5]}}"#);
    assert_eq!(report.altitude_m, Some(300.5));
}

#[test]
fn an_optional_field_that_cannot_be_is_left_out_and_flagged() {
    for field in [
        r#""altitude":"high""#,
        r#""altitude":1e6"#,
        r#""speed":-1"#,
        r#""speed":"NaN""#,
        r#""course":361"#,
        r#""satellites":-1"#,
        r#""satellites":4.5"#,
        r#""satellites":70000"#,
        r#""hdop":true"#,
        r#""accuracy":[]"#,
        r#""altitude":"1e999""#,
    ] {
        let report = one(&format!(r#"{{"lat":1,"lon":2,{field}}}"#));
        assert_eq!(report.flags, Flags::RANGE_OF_OPTIONAL, "{field}");
        let all = [
            report.altitude_m,
            report.speed_mps,
            report.course_deg,
            report.hdop,
            report.accuracy_m,
        ];
        assert_eq!((all, report.satellites), ([None; 5], None));
    }
    let nothing = one(r#"{"lat":1,"lon":2,"altitude":null,"speed":"","satellites":null}"#);
    assert_eq!(nothing.flags, Flags::NONE);
}

#[test]
fn g35_no_fix_is_flagged() {
    for params in [
        r#"{"lat":0,"lon":0}"#,
        r#"{"lat":-0.0,"lon":"0.000"}"#,
        r#"{"lat":0.0009,"lon":-0.0009}"#,
        r#"{"lat":45,"lon":13,"fix":false}"#,
        r#"{"lat":45,"lon":13,"location_state":0}"#,
        r#"{"lat":45,"lon":13,"gps_valid":"V"}"#,
        r#"{"lat":45,"lon":13,"fix":"None"}"#,
        r#"{"lat":null,"lon":null}"#,
        r#"{"lat":"","lon":"","fix":"0"}"#,
        r#"{"lat":null,"fix":0}"#,
        r#"{"nmea":"$GPRMC,,V,,,,,,,,,,N*53"}"#,
    ] {
        let report = one(params);
        assert_eq!(report.flags, Flags::NO_FIX, "{params}");
        assert!(!report.is_newer(None));
    }
    for params in [
        r#"{"lat":0,"lon":13}"#,
        r#"{"lat":45,"lon":0}"#,
        r#"{"lat":0.001,"lon":0}"#,
        r#"{"lat":45,"lon":13,"fix":3,"valid":true}"#,
        r#"{"lat":90,"lon":-180}"#,
    ] {
        assert_eq!(one(params).flags, Flags::NONE, "{params}");
    }
}

#[test]
fn g35_what_cannot_be_a_position_is_a_fault_and_nothing_is_swapped_or_clamped() {
    for (params, reason, path) in [
        (r#"{"lat":90.0000001,"lon":1}"#, "range", "/params/lat"),
        (r#"{"lat":-91,"lon":1}"#, "range", "/params/lat"),
        (r#"{"lat":116.4,"lon":39.9}"#, "range", "/params/lat"),
        (r#"{"lat":1,"lng":180.0000001}"#, "range", "/params/lng"),
        (r#"{"lat":1,"lon":"-181"}"#, "range", "/params/lon"),
        (r#"{"lat":1e300,"lon":1}"#, "range", "/params/lat"),
        (r#"{"lat":1,"lon":"1e999"}"#, "type", "/params/lon"),
        (r#"{"lat":"NaN","lon":1}"#, "type", "/params/lat"),
        (r#"{"lat":1,"lon":"inf"}"#, "type", "/params/lon"),
        (r#"{"lat":"-Infinity","lon":1}"#, "type", "/params/lat"),
        (r#"{"lat":"45,27","lon":13}"#, "type", "/params/lat"),
        (r#"{"lat":"４５","lon":13}"#, "type", "/params/lat"),
        (r#"{"lat":"45°","lon":13}"#, "type", "/params/lat"),
        (r#"{"lat":true,"lon":13}"#, "type", "/params/lat"),
        (r#"{"lat":{},"lon":[]}"#, "type", "/params/lat"),
        (r#"{"lat":45}"#, "missing", "/params/longitude"),
        (
            r#"{"a~/b":{"lng":45,"lat":null}}"#,
            "missing",
            "/params/a~0~1b/latitude",
        ),
        (
            r#"{"g":{"type":"Point","coordinates":[1]}}"#,
            "missing",
            "/params/g/coordinates/1",
        ),
        (
            r#"{"g":{"type":"Point","coordinates":[1,95]}}"#,
            "range",
            "/params/g/coordinates/1",
        ),
        (
            r#"{"lat":1,"lon":2,"coordinateSystem":"MOON"}"#,
            "enum",
            "/params/coordinateSystem",
        ),
        (
            r#"{"lat":1,"lon":2,"coordinateSystem":7}"#,
            "enum",
            "/params/coordinateSystem",
        ),
        (
            r#"{"s":"$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,190302,,*00"}"#,
            "checksum",
            "/params/s",
        ),
    ] {
        assert_eq!(
            fault(params),
            (reason.to_owned(), path.to_owned()),
            "{params}"
        );
    }
}

#[test]
fn g36_times_are_kept_and_flagged() {
    let now = RECEIVED_MS;
    for (timestamp, device_ms, flags) in [
        (format!("{now}"), Some(now), Flags::NONE),
        (
            format!("{}", now + 300_000),
            Some(now + 300_000),
            Flags::NONE,
        ),
        (
            format!("{}", now + 300_001),
            Some(now + 300_001),
            Flags::TIME_IN_FUTURE,
        ),
        (
            format!("{}", now - 604_800_000),
            Some(now - 604_800_000),
            Flags::NONE,
        ),
        (
            format!("{}", now - 604_800_001),
            Some(now - 604_800_001),
            Flags::TIME_TOO_OLD,
        ),
        (format!("{}", now / 1000), Some(now), Flags::NONE),
        (format!("{now}000000"), Some(now), Flags::NONE),
        (
            "\"2025-08-01T06:13:20+08:00\"".to_owned(),
            Some(now),
            Flags::NONE,
        ),
        ("0".to_owned(), None, Flags::NO_TIME),
        ("12345".to_owned(), None, Flags::NO_TIME),
        ("null".to_owned(), None, Flags::NO_TIME),
        ("\"soon\"".to_owned(), None, Flags::NO_TIME),
    ] {
        let message = format!(
            r#"{{"method":"report","timestamp":{timestamp},"params":{{"lat":1,"lon":2}}}}"#
        );
        let report = extracted(&message).reports.remove(0);
        assert_eq!(
            (report.device_ms, report.flags),
            (device_ms, flags),
            "{timestamp}"
        );
        assert_eq!(report.received_ms, now);
        assert_eq!(report.is_newer(None), flags == Flags::NONE);
    }
    // A time with the coordinates counts first; one that is none is passed over.
    let report = one(r#"{"lat":1,"lon":2,"gps_time":"","time":"x","ts":1753999999}"#);
    assert_eq!(report.device_ms, Some(now - 1000));
}

#[test]
fn systems_are_kept_as_tagged_and_converted_only_when_configured() {
    let tagged =
        r#"{"method":"report","params":{"lat":39.915,"lon":116.404,"coordinateSystem":"gcj02"}}"#;
    let report = extracted(tagged).reports.remove(0);
    assert_eq!(
        (report.latitude, report.longitude, report.system),
        (39.915, 116.404, System::Gcj02)
    );
    assert!(!report.flags.contains(Flags::CONVERTED));
    let settings = Settings {
        convert_to: Some(System::Wgs84),
        ..Settings::default()
    };
    let converting = Rules::load(SHIPPED, None, settings).unwrap();
    let report = extract_with(&converting, tagged).reports.remove(0);
    let expected = convert(System::Gcj02, System::Wgs84, 39.915, 116.404);
    assert_eq!((report.latitude, report.longitude), expected);
    assert_eq!(report.system, System::Wgs84);
    assert!(report.flags.contains(Flags::CONVERTED));
    let same = extract_with(&converting, &tagged.replace("gcj02", "WGS84"))
        .reports
        .remove(0);
    assert_eq!((same.latitude, same.longitude), (39.915, 116.404));
    assert!(!same.flags.contains(Flags::CONVERTED));
    let baidu = rules("[[position]]\nlatitude = \"/lat\"\nlongitude = \"/lon\"\nsystem = \"BD09\"");
    assert_eq!(extract_with(&baidu, tagged).reports[0].system, System::Bd09);
}

#[test]
fn a_products_own_rules() {
    let rules = rules(
        r#"
        [[position]]
        products = ["P"]
        at = ["/fixes/0", "/tracker/*"]
        latitude = "/0"
        longitude = "/1"
        altitude_ft = "/2"
        speed_mph = "/3"
        [[none]]
        products = ["S"]"#,
    );
    let report = |params: &str| {
        extract_with(
            &rules,
            &format!(r#"{{"method":"report","params":{params}}}"#),
        )
        .reports
    };
    let found = report(r#"{"fixes":[[45.5,13.5,1000,10],[1,2]]}"#);
    assert_eq!((found[0].latitude, found[0].longitude), (45.5, 13.5));
    assert_eq!(found[0].altitude_m, Some(304.8));
    assert_eq!(found[0].speed_mps, Some(4.4704));
    assert_eq!(report(r#"{"tracker":{"a":1,"b":{"0":1,"1":2}}}"#).len(), 1);
    assert_eq!(report(r#"{"lat":1,"lon":2}"#), []);
    let sub = r#"{"method":"packReport","subDevices":[{"productID":"S","deviceName":"s","properties":[{"params":{"lat":1,"lon":1}}]}]}"#;
    assert_eq!(extract_with(&rules, sub), Extraction::default());
}

#[test]
fn the_recorded_tracks_come_out_bit_for_bit() {
    let tracks = [
        include_str!("../cli/dev/tracks/drive.csv"),
        include_str!("../cli/dev/tracks/hike.csv"),
    ];
    let settings = Settings {
        past_max_ms: u64::MAX,
        ..Settings::default()
    };
    let rules = Rules::load(SHIPPED, None, settings).unwrap();
    let mut count = 0;
    for line in tracks.iter().flat_map(|track| track.lines().skip(1)) {
        let [time, latitude, longitude, altitude] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let message = format!(
            r#"{{"method":"packReport","properties":[{{"timestamp":"{time}","params":{{"GPS_Info":{{"longtitude":{longitude},"latitude":"{latitude}","altitude":{altitude}}}}}}}]}}"#
        );
        let report = extract_with(&rules, &message).reports.remove(0);
        let number = |text: &str| text.parse::<f64>().unwrap().to_bits();
        assert_eq!(report.latitude.to_bits(), number(latitude));
        assert_eq!(report.longitude.to_bits(), number(longitude));
        assert_eq!(report.altitude_m.unwrap().to_bits(), number(altitude));
        let at = event::iso8601(report.device_ms.unwrap());
        assert_eq!(at.replace(".000Z", "Z"), time);
        assert_eq!(report.flags, Flags::NONE);
        count += 1;
    }
    assert_eq!(count, 104 + 513);
}
