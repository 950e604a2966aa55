//! What is remembered of a device's way: its last valid fix, the fences that it is in, its trip, the point kept last.
//!
//! Only a newer valid fix moves a track (G37): late points, points without a fix or a plausible time change nothing. The state is
//! JSON, so that it stands in a row beside what it belongs to; what an older version did not know takes its default.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::fence::Fences;
use super::report::Report;
use super::sphere::{Point, distance_m};
use super::trip::{Motion, TripConfig};

/// A valid fix: when, and where in WGS84.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Degrees, WGS84.
    pub latitude: f64,
    /// Degrees, WGS84.
    pub longitude: f64,
}

impl Fix {
    /// Where.
    #[must_use]
    pub const fn point(&self) -> Point {
        Point {
            latitude: self.latitude,
            longitude: self.longitude,
        }
    }
}

/// The state of one device's way; that of a new device is the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Track {
    last: Option<Fix>,
    kept: Option<Fix>,
    fences: BTreeSet<String>,
    motion: Option<Motion>,
}

/// What to look for; that of nothing is the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watching<'a> {
    /// None: no fence events, and a device is in none.
    pub fences: Option<&'a Fences>,
    /// None: no trips.
    pub trip: Option<TripConfig>,
    /// None: every point is kept.
    pub sampling: Option<Sampling>,
}

/// Which points of a track are kept: the first, and each that is so late or so far after the one that was kept last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Milliseconds; 0: time does not matter.
    pub interval_ms: u64,
    /// Metres; 0: distance does not matter.
    pub distance_m: f64,
}

/// What a report did to its track.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Whether it is the device's latest valid fix.
    pub is_newer: bool,
    /// Whether it comes after one of a later time.
    pub is_late: bool,
    /// Whether it stays in history. What makes no step in the track, such as a late point, is always kept.
    pub is_kept: bool,
    /// In this order: fences left, fences entered, the trip.
    pub changes: Vec<Change>,
}

/// Something that a device's way tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It went into a fence.
    FenceEntered {
        /// Its name.
        fence: String,
    },
    /// It went out of a fence.
    FenceLeft {
        /// Its name.
        fence: String,
    },
    /// It left where it stood.
    TripStarted {
        /// The last fix there.
        start: Fix,
    },
    /// It stands again, or fell silent.
    TripStopped {
        /// Where and when it started.
        start: Fix,
        /// The first fix of where it stands, or the last before the silence.
        end: Fix,
        /// Metres along its fixes.
        distance_m: f64,
        /// How many fixes, both ends among them.
        points: u32,
        /// The fastest that the device said, if it said any.
        speed_max_mps: Option<f64>,
    },
}

impl Track {
    /// The track of a device of which only the latest valid fix is known: that of a row written before anything was watched.
    #[must_use]
    pub fn since(latest: Fix) -> Self {
        Self {
            last: Some(latest),
            ..Self::default()
        }
    }

    /// The latest valid fix.
    #[must_use]
    pub const fn last(&self) -> Option<Fix> {
        self.last
    }

    /// The fences that the device is in.
    pub fn fences(&self) -> impl Iterator<Item = &str> {
        self.fences.iter().map(String::as_str)
    }

    /// Goes on to a report of the device.
    pub fn step(&mut self, report: &Report, watching: &Watching<'_>) -> Step {
        let latest_ms = self.last.map(|last| last.at_ms);
        let mut step = Step {
            is_newer: report.is_newer(latest_ms),
            is_late: report.is_late(latest_ms),
            is_kept: true,
            changes: Vec::new(),
        };
        if !step.is_newer {
            return step;
        }
        let point = report.point();
        let fix = Fix {
            at_ms: report.at_ms(),
            latitude: point.latitude,
            longitude: point.longitude,
        };
        self.cross(
            report.device.product(),
            point,
            watching.fences,
            &mut step.changes,
        );
        self.motion = watching
            .trip
            .map(|config| match (self.motion.take(), self.last) {
                (Some(motion), Some(last)) => {
                    motion.step(last, fix, report.speed_mps, config, &mut step.changes)
                }
                (None, Some(last)) => Motion::Standing(last).step(
                    last,
                    fix,
                    report.speed_mps,
                    config,
                    &mut step.changes,
                ),
                (_, None) => Motion::Standing(fix),
            });
        self.last = Some(fix);
        step.is_kept = !step.changes.is_empty() || self.is_kept(fix, watching.sampling);
        if step.is_kept {
            self.kept = Some(fix);
        }
        step
    }

    /// Goes into and out of fences.
    fn cross(
        &mut self,
        product: &str,
        point: Point,
        fences: Option<&Fences>,
        changes: &mut Vec<Change>,
    ) {
        let now = fences.map(|fences| fences.around(product, point, &self.fences));
        let now = now.unwrap_or_default();
        // A fence that is not there any more is left without a word.
        let is_there = |name: &&String| fences.is_some_and(|fences| fences.has(name));
        let left = self.fences.difference(&now).filter(is_there).cloned();
        changes.extend(left.map(|fence| Change::FenceLeft { fence }));
        let entered = now.difference(&self.fences).cloned();
        changes.extend(entered.map(|fence| Change::FenceEntered { fence }));
        self.fences = now;
    }

    fn is_kept(&self, fix: Fix, sampling: Option<Sampling>) -> bool {
        let (Some(sampling), Some(kept)) = (sampling, self.kept) else {
            return true;
        };
        let (interval_ms, metres) = (sampling.interval_ms, sampling.distance_m);
        let is_late_enough = interval_ms > 0 && fix.at_ms.saturating_sub(kept.at_ms) >= interval_ms;
        let is_far_enough = metres > 0.0 && distance_m(kept.point(), fix.point()) >= metres;
        is_late_enough || is_far_enough || (interval_ms == 0 && metres <= 0.0)
    }
}

#[cfg(test)]
#[path = "track_tests.rs"]
pub(super) mod tests;
