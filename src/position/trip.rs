//! Trips: from the first movement away from where a device stood to where it stands again.
//!
//! A device stands while it stays within `move_m` of one place. It ends a trip when it has stood for `stop_s`, or when it was
//! silent for as long; the trip's end is when it began to stand, or was last heard.

use serde::{Deserialize, Serialize};

use super::sphere::distance_m;
use super::track::{Change, Fix};

/// What a trip is: `[gps.trip]`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TripConfig {
    /// Metres from where it stood that are a movement; above 0.
    pub move_m: f64,
    /// Seconds without movement, or without a report, that end a trip; above 0.
    pub stop_s: u64,
}

impl Default for TripConfig {
    /// 100 metres, five minutes.
    fn default() -> Self {
        Self {
            move_m: 100.0,
            stop_s: 300,
        }
    }
}

impl TripConfig {
    /// What is wrong with it: lower case, no full stop.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(self.move_m > 0.0 && self.move_m <= 1_000_000.0) {
            faults.push("trip.move_m: expected more than 0 and at most 1000000".to_owned());
        }
        if !(1..=31_536_000).contains(&self.stop_s) {
            faults.push("trip.stop_s: expected 1 to 31536000".to_owned());
        }
        faults
    }

    fn stop_ms(&self) -> u64 {
        self.stop_s.saturating_mul(1000)
    }
}

/// Whether a device stands or is on a trip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Motion {
    /// Here.
    Standing(Fix),
    /// Since it left where it stood.
    Trip(Trip),
}

/// A trip that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trip {
    start: Fix,
    /// The way so far along the fixes, and the fastest that the device said.
    distance_m: f64,
    speed_max_mps: Option<f64>,
    points: u32,
    /// Where it may be standing since, and what the trip was when it came there.
    rest: Fix,
    rest_distance_m: f64,
    rest_points: u32,
}

impl Motion {
    /// Goes on to a newer fix, `last` being the one before.
    pub(super) fn step(
        self,
        last: Fix,
        fix: Fix,
        speed_mps: Option<f64>,
        config: TripConfig,
        changes: &mut Vec<Change>,
    ) -> Self {
        let is_silence = fix.at_ms.saturating_sub(last.at_ms) >= config.stop_ms();
        match self {
            Self::Standing(place) => {
                if distance_m(place.point(), fix.point()) <= config.move_m {
                    return Self::Standing(place);
                }
                if is_silence {
                    return Self::Standing(fix);
                }
                changes.push(Change::TripStarted { start: last });
                let distance_m = distance_m(last.point(), fix.point());
                Self::Trip(Trip {
                    start: last,
                    distance_m,
                    speed_max_mps: speed_mps,
                    points: 2,
                    rest: fix,
                    rest_distance_m: distance_m,
                    rest_points: 2,
                })
            }
            Self::Trip(trip) if is_silence => {
                changes.push(trip.stopped(last, trip.distance_m, trip.points));
                Self::Standing(fix)
            }
            Self::Trip(trip) => trip.go_on(last, fix, speed_mps, config, changes),
        }
    }
}

impl Trip {
    fn go_on(
        mut self,
        last: Fix,
        fix: Fix,
        speed_mps: Option<f64>,
        config: TripConfig,
        changes: &mut Vec<Change>,
    ) -> Motion {
        self.distance_m += distance_m(last.point(), fix.point());
        self.points = self.points.saturating_add(1);
        self.speed_max_mps = match (self.speed_max_mps, speed_mps) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
        if distance_m(self.rest.point(), fix.point()) > config.move_m {
            self.rest = fix;
            self.rest_distance_m = self.distance_m;
            self.rest_points = self.points;
        } else if fix.at_ms.saturating_sub(self.rest.at_ms) >= config.stop_ms() {
            changes.push(self.stopped(self.rest, self.rest_distance_m, self.rest_points));
            return Motion::Standing(self.rest);
        }
        Motion::Trip(self)
    }

    fn stopped(&self, end: Fix, distance_m: f64, points: u32) -> Change {
        Change::TripStopped {
            start: self.start,
            end,
            distance_m,
            points,
            speed_max_mps: self.speed_max_mps,
        }
    }
}

#[cfg(test)]
#[path = "trip_tests.rs"]
mod tests;
