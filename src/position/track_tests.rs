//! Tracks: newer and late, fences, what is kept, and the state as JSON.

use super::*;
use crate::device::DeviceId;
use crate::position::convert::System;
use crate::position::fence::{Circle, FenceConfig};
use crate::position::flags::Flags;

pub(in crate::position) fn report(at_ms: u64, latitude: f64, longitude: f64) -> Report {
    Report {
        device: DeviceId::new("P", "D").unwrap(),
        index: 0,
        latitude,
        longitude,
        system: System::Wgs84,
        altitude_m: None,
        speed_mps: None,
        course_deg: None,
        satellites: None,
        hdop: None,
        accuracy_m: None,
        device_ms: Some(at_ms),
        received_ms: 1_000_000,
        flags: Flags::NONE,
    }
}

fn flagged(flags: Flags, at_ms: u64) -> Report {
    Report {
        flags,
        ..report(at_ms, 1.0, 1.0)
    }
}

#[test]
fn g37_only_a_newer_valid_fix_moves_a_track() {
    let mut track = Track::default();
    let mut step = |report: &Report| {
        let step = track.step(report, &Watching::default());
        assert!(step.is_kept && step.changes.is_empty());
        (
            step.is_newer,
            step.is_late,
            track.last().map(|last| last.at_ms),
        )
    };
    assert_eq!(step(&report(1000, 1.0, 1.0)), (true, false, Some(1000)));
    assert_eq!(step(&report(3000, 1.0, 1.0)), (true, false, Some(3000)));
    assert_eq!(step(&report(2000, 1.0, 1.0)), (false, true, Some(3000)));
    assert_eq!(
        step(&report(3000, 1.0, 1.0)),
        (false, false, Some(3000)),
        "the same again"
    );
    assert_eq!(
        step(&flagged(Flags::NO_FIX, 9000)),
        (false, false, Some(3000))
    );
    assert_eq!(
        step(&flagged(Flags::NO_FIX, 2000)),
        (false, true, Some(3000))
    );
    assert_eq!(
        step(&flagged(Flags::TIME_IN_FUTURE, 9000)),
        (false, false, Some(3000))
    );
    assert_eq!(
        step(&flagged(Flags::TIME_TOO_OLD, 1)),
        (false, true, Some(3000))
    );
    let timeless = Report {
        device_ms: None,
        ..flagged(Flags::NO_TIME, 0)
    };
    assert_eq!(timeless.at_ms(), timeless.received_ms);
    assert_eq!(step(&timeless), (false, false, Some(3000)));
    let harmless = Flags::CONVERTED | Flags::RANGE_OF_OPTIONAL;
    assert_eq!(step(&flagged(harmless, 3001)), (true, false, Some(3001)));
}

fn depot(name: &str) -> FenceConfig {
    FenceConfig {
        name: name.to_owned(),
        products: Vec::new(),
        circle: Some(Circle {
            latitude: 39.915,
            longitude: 116.404,
            radius_m: 100.0,
        }),
        polygon: Vec::new(),
        hysteresis_m: 10.0,
    }
}

#[test]
fn fences_are_entered_and_left_once() {
    let fences = Fences::new(&[depot("depot")]).unwrap();
    let watching = Watching {
        fences: Some(&fences),
        ..Watching::default()
    };
    let mut track = Track::default();
    let mut step = |at_ms, latitude, longitude| {
        track
            .step(&report(at_ms, latitude, longitude), &watching)
            .changes
    };
    let fence = || "depot".to_owned();
    assert_eq!(step(1000, 39.9, 116.404), []);
    assert_eq!(
        step(2000, 39.915, 116.404),
        [Change::FenceEntered { fence: fence() }]
    );
    assert_eq!(step(3000, 39.9151, 116.404), []);
    assert_eq!(step(500, 39.9, 116.404), [], "a late point");
    assert_eq!(
        step(4000, 39.9, 116.404),
        [Change::FenceLeft { fence: fence() }]
    );
    // The same place as Chinese maps have it is half a kilometre off on paper only.
    let (latitude, longitude) =
        crate::position::convert(System::Wgs84, System::Gcj02, 39.915, 116.404);
    let shifted = Report {
        system: System::Gcj02,
        ..report(5000, latitude, longitude)
    };
    assert_eq!(
        track.step(&shifted, &watching).changes,
        [Change::FenceEntered { fence: fence() }]
    );
    assert_eq!(track.fences().collect::<Vec<_>>(), ["depot"]);
    // A fence that was taken out of the configuration is left without a word.
    let none = Watching::default();
    assert_eq!(track.step(&report(6000, 39.9, 116.4), &none).changes, []);
    assert_eq!(track.fences().count(), 0);
}

#[test]
fn what_is_kept_is_apart_in_time_or_place() {
    let sampling = |interval_ms, distance_m| Watching {
        sampling: Some(Sampling {
            interval_ms,
            distance_m,
        }),
        ..Watching::default()
    };
    // Degrees of latitude of some 11 metres each.
    let points = [
        (1000, 0),
        (2000, 0),
        (3000, 1),
        (10_000, 1),
        (11_000, 5),
        (12_000, 14),
        (13_000, 14),
    ];
    for (watching, expected) in [
        (Watching::default(), vec![0, 1, 2, 3, 4, 5, 6]),
        (sampling(0, 0.0), vec![0, 1, 2, 3, 4, 5, 6]),
        (sampling(9000, 0.0), vec![0, 3]),
        (sampling(0, 100.0), vec![0, 5]),
        (sampling(9000, 100.0), vec![0, 3, 5]),
    ] {
        let mut track = Track::default();
        let kept = points.iter().enumerate().filter(|(_, (at_ms, north))| {
            let report = report(*at_ms, f64::from(*north) * 1e-4 + 1.0, 1.0);
            track.step(&report, &watching).is_kept
        });
        assert_eq!(
            kept.map(|(at, _)| at).collect::<Vec<_>>(),
            expected,
            "{watching:?}"
        );
    }
    // What makes no step is kept always.
    let mut track = Track::since(track_fix(5000));
    assert!(
        track
            .step(&report(4000, 1.0, 1.0), &sampling(9000, 100.0))
            .is_kept
    );
    assert!(
        track
            .step(&flagged(Flags::NO_FIX, 6000), &sampling(9000, 100.0))
            .is_kept
    );
}

fn track_fix(at_ms: u64) -> Fix {
    Fix {
        at_ms,
        latitude: 1.0,
        longitude: 1.0,
    }
}

#[test]
fn a_state_goes_on_from_its_json_and_from_an_older_one() {
    let fences = Fences::new(&[depot("depot")]).unwrap();
    let watching = Watching {
        fences: Some(&fences),
        trip: Some(TripConfig::default()),
        sampling: Some(Sampling {
            interval_ms: 2000,
            distance_m: 0.0,
        }),
    };
    let mut track = Track::default();
    for second in 1..200_u32 {
        let report = report(
            u64::from(second) * 1000,
            39.915 + f64::from(second) * 1e-4,
            116.404,
        );
        track.step(&report, &watching);
        let json = serde_json::to_string(&track).unwrap();
        let read: Track = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        track = read;
    }
    let old: Track = serde_json::from_str("{}").unwrap();
    assert_eq!(old, Track::default());
    assert!(serde_json::from_str::<Track>(r#"{"later":1}"#).is_ok());
}
