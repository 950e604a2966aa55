//! Trips: started, stopped, in silence, and never by the noise of a device that stands.

use super::*;
use crate::position::track::tests::report;
use crate::position::track::{Step, Track, Watching};

const CONFIG: TripConfig = TripConfig {
    move_m: 100.0,
    stop_s: 60,
};

/// A degree of longitude at the equator, metres.
const DEGREE_M: f64 = 111_195.080_233_532_9;

/// Steps through seconds and metres east; gives each change with the second that it came in.
fn drive(points: &[(u64, f64)]) -> Vec<(u64, Change)> {
    let watching = Watching {
        trip: Some(CONFIG),
        ..Watching::default()
    };
    let mut track = Track::default();
    let mut changes = Vec::new();
    for (second, east_m) in points {
        let mut report = report(second * 1000, 0.0, 10.0 + east_m / DEGREE_M);
        report.speed_mps = Some(*east_m / 100.0);
        let Step { changes: new, .. } = track.step(&report, &watching);
        changes.extend(new.into_iter().map(|change| (*second, change)));
    }
    changes
}

fn stopped(change: &Change) -> (u64, u64, i64, u32, Option<f64>) {
    let Change::TripStopped {
        start,
        end,
        distance_m,
        points,
        speed_max_mps,
    } = change
    else {
        panic!("{change:?}");
    };
    #[allow(clippy::cast_possible_truncation, reason = "metres of a test")]
    let metres = distance_m.round() as i64;
    (
        start.at_ms / 1000,
        end.at_ms / 1000,
        metres,
        *points,
        *speed_max_mps,
    )
}

#[test]
fn a_trip_is_from_where_a_device_stood_to_where_it_stands_again() {
    let changes = drive(&[
        (0, 0.0),
        (10, 20.0),
        (20, 5.0),
        (30, 205.0),
        (40, 405.0),
        (50, 605.0),
        (60, 610.0),
        (90, 600.0),
        (110, 605.0),
        (120, 605.0),
    ]);
    assert_eq!(changes.len(), 2, "{changes:?}");
    let (second, Change::TripStarted { start }) = &changes[0] else {
        panic!("{changes:?}");
    };
    assert_eq!((*second, start.at_ms), (30, 20_000));
    assert_eq!(changes[1].0, 110);
    // What it moved while it stood is not of the trip.
    assert_eq!(stopped(&changes[1].1), (20, 50, 600, 4, Some(6.1)));
}

#[test]
fn silence_ends_a_trip_where_the_device_was_last_heard() {
    let changes = drive(&[
        (0, 0.0),
        (10, 200.0),
        (20, 400.0),
        (80, 5000.0),
        (90, 5010.0),
        (100, 5200.0),
    ]);
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert_eq!(stopped(&changes[1].1), (0, 20, 400, 3, Some(4.0)));
    assert_eq!(changes[1].0, 80);
    // Where it was heard again it stands, and goes on from there.
    let (100, Change::TripStarted { start }) = &changes[2] else {
        panic!("{changes:?}");
    };
    assert_eq!(start.at_ms, 90_000);
}

#[test]
fn a_device_that_stands_makes_no_trips() {
    let noise: Vec<(u64, f64)> = (0..1000)
        .map(|second| (second, if second % 2 == 0 { -45.0 } else { 45.0 }))
        .collect();
    assert_eq!(drive(&noise), []);
    assert_eq!(
        drive(&[(0, 0.0), (1000, 9000.0), (2000, 0.0)]),
        [],
        "moved in silence"
    );
}

#[test]
fn a_configuration_that_cannot_be_is_told() {
    assert_eq!(TripConfig::default().faults(), Vec::<String>::new());
    let config: TripConfig = toml::from_str("move_m = 0\nstop_s = 0").unwrap();
    let faults = [
        "trip.move_m: expected more than 0 and at most 1000000",
        "trip.stop_s: expected 1 to 31536000",
    ];
    assert_eq!(config.faults(), faults);
    assert!(toml::from_str::<TripConfig>("stop = 1").is_err());
}
