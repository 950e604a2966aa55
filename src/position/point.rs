//! A position written as numbers, read by its rule: found, not there, or a fault (G35).
//!
//! What is found is taken as it is: never swapped, clamped or guessed. An optional field that cannot be is left out and flagged.

use std::borrow::Cow;

use super::convert::System;
use super::flags::Flags;
use super::rule::{Measure, Numbers, Pointer, Unit};
use super::time;
use super::tree::{Number, Value};
use crate::event::{Fault, descend, reason};

/// What a rule found: a report without what its message says of all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    pub(super) system: System,
    pub(super) altitude_m: Option<f64>,
    pub(super) speed_mps: Option<f64>,
    pub(super) course_deg: Option<f64>,
    pub(super) satellites: Option<u16>,
    pub(super) hdop: Option<f64>,
    pub(super) accuracy_m: Option<f64>,
    /// The time that stands with the coordinates.
    pub(super) device_ms: Option<u64>,
    pub(super) flags: Flags,
}

/// What is at one place.
#[derive(Debug)]
pub(super) enum Found {
    /// No position.
    Nothing,
    /// Something that is none by itself: another place may have one, else this is what there is.
    Doubtful(Result<Draft, Fault>),
    /// What there is, wherever else one might look; one or more.
    Certain(Vec<Result<Draft, Fault>>),
}

/// A coordinate.
enum Coordinate<'r> {
    Missing,
    Null,
    Is(f64),
    /// Something else; where.
    Not(Option<&'r Pointer>),
}

/// The largest latitude and longitude, degrees.
const LATITUDE_MAX: f64 = 90.0;
const LONGITUDE_MAX: f64 = 180.0;

impl Draft {
    /// A position of which only the coordinates are known.
    pub(super) const fn at(latitude: f64, longitude: f64) -> Self {
        Self {
            latitude,
            longitude,
            system: System::Wgs84,
            altitude_m: None,
            speed_mps: None,
            course_deg: None,
            satellites: None,
            hdop: None,
            accuracy_m: None,
            device_ms: None,
            flags: Flags::NONE,
        }
    }

    /// Takes a number for an optional field, as metric, if it is in the field's range; flags it if not.
    fn optional(&mut self, number: Number, unit: Unit, range: (f64, f64)) -> Option<f64> {
        let number = match number {
            Number::Null => return None,
            Number::Not => None,
            Number::Is(number) => Some(unit.to_metric(number)),
        };
        let fitting = number.filter(|number| (range.0..=range.1).contains(number));
        if fitting.is_none() {
            self.flags |= Flags::RANGE_OF_OPTIONAL;
        }
        fitting
    }

    pub(super) fn set_altitude(&mut self, number: Number, unit: Unit) {
        self.altitude_m = self.optional(number, unit, (-12_000.0, 100_000.0));
    }

    pub(super) fn set_speed(&mut self, number: Number, unit: Unit) {
        self.speed_mps = self.optional(number, unit, (0.0, 1_000.0));
    }

    pub(super) fn set_course(&mut self, number: Number) {
        self.course_deg = self.optional(number, Unit::METRIC, (0.0, 360.0));
    }

    pub(super) fn set_hdop(&mut self, number: Number) {
        self.hdop = self.optional(number, Unit::METRIC, (0.0, 1_000.0));
    }

    pub(super) fn set_accuracy(&mut self, number: Number) {
        self.accuracy_m = self.optional(number, Unit::METRIC, (0.0, 10_000_000.0));
    }

    /// A count: a number with a fraction is none.
    pub(super) fn set_satellites(&mut self, number: Number) {
        let whole = match number {
            Number::Is(number) if number.fract() != 0.0 => Number::Not,
            other => other,
        };
        let number = self.optional(whole, Unit::METRIC, (0.0, 1_000.0));
        // Whole and at most 1,000: its text is that of an integer.
        self.satellites = number.and_then(|number| format!("{:.0}", number.abs()).parse().ok());
    }
}

impl Numbers {
    /// Reads the position at a place; `path` is where that is.
    pub(super) fn read(&self, place: &Value<'_>, path: &dyn Fn() -> String) -> Found {
        let latitude = Coordinate::read(place, &self.latitude);
        let longitude = Coordinate::read(place, &self.longitude);
        let (latitude, longitude) = match (latitude, longitude) {
            (Coordinate::Missing, Coordinate::Missing) => return Found::Nothing,
            (Coordinate::Is(latitude), Coordinate::Is(longitude)) => (latitude, longitude),
            (Coordinate::Not(at), Coordinate::Is(_) | Coordinate::Not(_))
            | (Coordinate::Is(_), Coordinate::Not(at)) => {
                let rule = "expected a number of degrees";
                return Found::Certain(vec![Err(fault(reason::TYPE, path, at, rule))]);
            }
            // A device without a fix has no coordinates to give.
            (Coordinate::Null, Coordinate::Null) => {
                return Found::Doubtful(Ok(self.without_fix(place)));
            }
            _ if !self.has_fix(place) => return Found::Doubtful(Ok(self.without_fix(place))),
            (Coordinate::Missing | Coordinate::Null, _) => {
                let rule = "expected a latitude beside the longitude";
                let at = self.latitude.first();
                return Found::Doubtful(Err(fault(reason::MISSING, path, at, rule)));
            }
            (_, Coordinate::Missing | Coordinate::Null) => {
                let rule = "expected a longitude beside the latitude";
                let at = self.longitude.first();
                return Found::Doubtful(Err(fault(reason::MISSING, path, at, rule)));
            }
        };
        let checked = check(latitude, longitude).map_err(|(is_latitude, rule)| {
            let pointers = match is_latitude {
                true => &self.latitude,
                false => &self.longitude,
            };
            fault(reason::RANGE, path, first_number(place, pointers), &rule)
        });
        Found::Certain(vec![checked.and_then(|()| {
            let mut draft = self.draft(place, latitude, longitude);
            draft.system = self.system_of(place, path)?;
            Ok(draft)
        })])
    }

    fn without_fix(&self, place: &Value<'_>) -> Draft {
        let mut draft = self.draft(place, 0.0, 0.0);
        draft.flags |= Flags::NO_FIX;
        draft
    }

    /// The coordinates and everything beside them.
    fn draft(&self, place: &Value<'_>, latitude: f64, longitude: f64) -> Draft {
        let mut draft = Draft::at(latitude, longitude);
        draft.system = self.system;
        if let Some((number, unit)) = measure(place, &self.altitude) {
            draft.set_altitude(number, unit);
        }
        if let Some((number, unit)) = measure(place, &self.speed) {
            draft.set_speed(number, unit);
        }
        draft.set_course(number(place, &self.course));
        draft.set_satellites(number(place, &self.satellites));
        draft.set_hdop(number(place, &self.hdop));
        draft.set_accuracy(number(place, &self.accuracy));
        draft.device_ms = values(place, &self.time).find_map(time::read);
        if !self.has_fix(place) {
            draft.flags |= Flags::NO_FIX;
        }
        draft
    }

    /// Whether the device does not say that it has no fix.
    fn has_fix(&self, place: &Value<'_>) -> bool {
        values(place, &self.fix).next().is_none_or(|said| {
            let word = said
                .text()
                .unwrap_or_else(|| Cow::Borrowed(said.raw().get()));
            let word = word.trim();
            let is_none = ["false", "v", "n", "no", "none", "invalid"]
                .iter()
                .any(|none| word.eq_ignore_ascii_case(none));
            !is_none && said.number() != Number::Is(0.0)
        })
    }

    /// What the degrees are of: what the device says; what it does not say is the rule's.
    fn system_of(&self, place: &Value<'_>, path: &dyn Fn() -> String) -> Result<System, Fault> {
        let said = self.system_at.iter().find_map(|at| {
            let value = place.at(at).filter(|value| !value.is_null())?;
            Some((at, value))
        });
        let Some((at, value)) = said else {
            return Ok(self.system);
        };
        let name = value.text();
        name.and_then(|name| System::from_name(&name))
            .ok_or_else(|| {
                let rule = "expected WGS84, GCJ02 or BD09";
                fault(reason::ENUM, path, Some(at), rule)
            })
    }
}

impl<'r> Coordinate<'r> {
    /// Of several places the first that has something counts.
    fn read(place: &Value<'_>, pointers: &'r [Pointer]) -> Self {
        let mut is_null = false;
        for at in pointers {
            match place.at(at).map(Value::number) {
                None => {}
                Some(Number::Null) => is_null = true,
                Some(Number::Is(number)) => return Self::Is(number),
                Some(Number::Not) => return Self::Not(Some(at)),
            }
        }
        match is_null {
            true => Self::Null,
            false => Self::Missing,
        }
    }
}

/// Whether degrees are of the earth; else whether it is the latitude that is not, and the rule.
pub(super) fn check(latitude: f64, longitude: f64) -> Result<(), (bool, String)> {
    for (is_latitude, degrees, max) in [
        (true, latitude, LATITUDE_MAX),
        (false, longitude, LONGITUDE_MAX),
    ] {
        if !(-max..=max).contains(&degrees) {
            let name = if is_latitude { "latitude" } else { "longitude" };
            let rule = format!("expected a {name} of -{max} to {max} degrees, found {degrees}");
            return Err((is_latitude, rule));
        }
    }
    Ok(())
}

fn fault(
    reason: &'static str,
    path: &dyn Fn() -> String,
    at: Option<&Pointer>,
    rule: &str,
) -> Fault {
    let mut path = path();
    for token in at.into_iter().flatten() {
        descend(&mut path, token);
    }
    Fault::new(reason, path, rule)
}

/// The values that there are at some places; `null` is none.
fn values<'v, 'a>(
    place: &'v Value<'a>,
    pointers: &'v [Pointer],
) -> impl Iterator<Item = &'v Value<'a>> {
    let there = pointers.iter().filter_map(|at| place.at(at));
    there.filter(|value| !value.is_null())
}

fn first_number<'r>(place: &Value<'_>, pointers: &'r [Pointer]) -> Option<&'r Pointer> {
    let is_number = |at: &&Pointer| {
        let value = place.at(at);
        value.is_some_and(|value| matches!(value.number(), Number::Is(_)))
    };
    pointers.iter().find(is_number)
}

fn number(place: &Value<'_>, pointers: &[Pointer]) -> Number {
    values(place, pointers)
        .next()
        .map_or(Number::Null, Value::number)
}

fn measure(place: &Value<'_>, measures: &[Measure]) -> Option<(Number, Unit)> {
    measures.iter().find_map(|measure| {
        let value = values(place, &measure.at).next()?;
        Some((value.number(), measure.unit))
    })
}
