//! Incidents begin and end as their rules say, and are told once.

use super::*;
use crate::position::{Flags, System};

fn report(at_s: u64, speed_mps: Option<f64>) -> Report {
    Report {
        device: DeviceId::new("P", "D").unwrap(),
        index: 0,
        latitude: 45.0,
        longitude: 14.0,
        system: System::Wgs84,
        altitude_m: None,
        speed_mps,
        course_deg: None,
        satellites: None,
        hdop: None,
        accuracy_m: None,
        device_ms: Some(at_s * 1_000),
        received_ms: at_s * 1_000,
        flags: Flags::NONE,
    }
}

fn rules() -> Rules {
    let rule = |name: &str, products: &[&str], limit_mps, over_mps| SpeedRule {
        name: name.to_owned(),
        products: products.iter().map(|&product| product.to_owned()).collect(),
        limit_mps,
        over_mps,
    };
    Rules {
        speed: vec![
            rule("town", &[], 14.0, Some(12.0)),
            rule("yard", &["Q"], 3.0, None),
        ],
        ..Rules::default()
    }
}

fn told(watch: &mut Watch, report: &Report) -> Vec<Event> {
    let origin = Origin {
        stream: "DEVICE_UP",
        sequence: report.received_ms,
    };
    let state = serde_json::to_string(watch).unwrap();
    *watch = read(&state, &report.device);
    watch.step(report, &origin, &rules())
}

#[test]
fn a_device_that_is_too_fast_is_told_once_until_it_was_slow_again() {
    let mut watch = Watch::default();
    for (at_s, speed, is_told) in [
        (1, Some(14.0), false),
        (2, Some(14.1), true),
        (3, Some(20.0), false),
        // Nothing said is no end.
        (4, None, false),
        (5, Some(13.0), false),
        (6, Some(15.0), false),
        (7, Some(12.0), false),
        (8, Some(15.0), true),
    ] {
        let events = told(&mut watch, &report(at_s, speed));
        assert_eq!(events.len(), usize::from(is_told), "{at_s}");
        for event in events {
            assert_eq!(event.subject, "gps.speed.exceeded.P.D");
            let body: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
            assert_eq!(body["data"]["limit_mps"], 14.0);
            assert_eq!(body["data"]["speed_mps"], speed.unwrap());
        }
    }
}

#[test]
fn late_points_and_points_without_a_fix_begin_and_end_nothing() {
    let mut watch = Watch::default();
    told(&mut watch, &report(10, Some(1.0)));
    assert_eq!(told(&mut watch, &report(9, Some(50.0))), []);
    let mut lost = report(11, Some(50.0));
    lost.flags = Flags::NO_FIX;
    assert_eq!(told(&mut watch, &lost), []);
    assert_eq!(told(&mut watch, &report(12, Some(50.0))).len(), 1);
    assert_eq!(told(&mut watch, &report(11, Some(1.0))), []);
    assert_eq!(told(&mut watch, &report(13, Some(50.0))), []);
}

#[test]
fn a_state_that_cannot_be_read_begins_anew() {
    let device = DeviceId::new("P", "D").unwrap();
    assert_eq!(read("[]", &device), Watch::default());
    assert_eq!(read("{}", &device), Watch::default());
}
