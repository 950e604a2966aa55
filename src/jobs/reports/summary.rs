//! What a device's reports of one window come to. Without I/O.

use crate::position::{Flags, Point, System, convert, distance_m};

/// A report as a summary needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) at_ms: i64,
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    pub(super) system: System,
    pub(super) speed_mps: Option<f64>,
    pub(super) flags: Flags,
}

/// A place, in WGS84, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) at_ms: i64,
    pub(super) latitude: f64,
    pub(super) longitude: f64,
}

/// All reports of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) points: i64,
    /// With a fix and a plausible time: all that follows is about these.
    pub(super) valid: i64,
    pub(super) first: Option<Place>,
    pub(super) last: Option<Place>,
    /// Along the points in the order of their times.
    pub(super) distance_m: f64,
    /// The fastest that the device said, if it said any.
    pub(super) speed_max_mps: Option<f64>,
}

impl Summary {
    /// Of samples in the order of their times.
    pub(super) fn of(samples: impl Iterator<Item = Sample>) -> Self {
        let mut summary = Self::default();
        let mut before: Option<Point> = None;
        for sample in samples {
            summary.points += 1;
            if !sample.flags.moves_latest() {
                continue;
            }
            summary.valid += 1;
            let (latitude, longitude) = convert(
                sample.system,
                System::Wgs84,
                sample.latitude,
                sample.longitude,
            );
            let place = Place {
                at_ms: sample.at_ms,
                latitude,
                longitude,
            };
            summary.first.get_or_insert(place);
            summary.last = Some(place);
            let here = Point {
                latitude,
                longitude,
            };
            if let Some(before) = before.replace(here) {
                summary.distance_m += distance_m(before, here);
            }
            let fastest = summary.speed_max_mps.into_iter().chain(sample.speed_mps);
            summary.speed_max_mps = fastest.reduce(f64::max);
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: i64, longitude: f64) -> Sample {
        Sample {
            at_ms,
            latitude: 0.0,
            longitude,
            system: System::Wgs84,
            speed_mps: None,
            flags: Flags::NONE,
        }
    }

    #[test]
    fn points_without_a_fix_are_counted_and_lead_nowhere() {
        let mut lost = sample(2, 50.0);
        lost.flags = Flags::NO_FIX;
        let mut late = sample(3, 60.0);
        late.flags = Flags::NO_TIME;
        let mut fast = sample(4, 1.0);
        fast.speed_mps = Some(9.5);
        let summary = Summary::of([sample(1, 0.0), lost, late, fast].into_iter());
        assert_eq!((summary.points, summary.valid), (4, 2));
        assert_eq!(summary.speed_max_mps, Some(9.5));
        // A degree on the equator of a sphere of the earth's mean radius.
        let degree = 6_371_008.8_f64.to_radians();
        assert!((summary.distance_m / degree - 1.0).abs() < 0.01);
        assert_eq!(summary.first.unwrap().at_ms, 1);
        assert_eq!(summary.last.unwrap().longitude, 1.0);
        assert_eq!(Summary::of([].into_iter()), Summary::default());
    }
}
