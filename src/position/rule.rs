//! One rule: where in what a device reports a position is, and what its numbers are.
//!
//! A rule is a `[[position]]` of a rules file; `subjects/positions.toml` says what its keys mean. Pointers are JSON pointers (RFC
//! 6901) from the value that `at` leads to; `at` begins at the report's `params` and may have `*` for any member.

use std::fmt;

use super::convert::System;
use crate::mapping::Entry;

/// The keys that a rule may have.
const KEYS: &[&str] = &[
    "products",
    "at",
    "when",
    "nmea",
    "latitude",
    "longitude",
    "altitude",
    "altitude_ft",
    "speed",
    "speed_kmh",
    "speed_knots",
    "speed_mph",
    "course",
    "satellites",
    "hdop",
    "accuracy",
    "time",
    "fix",
    "system",
    "system_at",
];
/// How deep a pointer may lead, how many of them a key may have, and how long a text may be.
const TOKENS_MAX: usize = 8;
const TEXTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 256;

/// A stretch of a JSON pointer: its tokens, unescaped.
pub(super) type Pointer = Vec<String>;

/// Where positions are, and how they are written there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    /// From a report's parameters; `*` is any member.
    pub(super) at: Vec<Pointer>,
    /// The rule holds only where these texts are.
    pub(super) when: Vec<(Pointer, String)>,
    pub(super) form: Form,
}

/// How a position is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// As a text of NMEA 0183 sentences.
    Nmea,
    /// As numbers.
    Numbers(Box<Numbers>),
}

/// Where the numbers of a position are; of several places the first that has one counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numbers {
    pub(super) latitude: Vec<Pointer>,
    pub(super) longitude: Vec<Pointer>,
    pub(super) altitude: Vec<Measure>,
    pub(super) speed: Vec<Measure>,
    pub(super) course: Vec<Pointer>,
    pub(super) satellites: Vec<Pointer>,
    pub(super) hdop: Vec<Pointer>,
    pub(super) accuracy: Vec<Pointer>,
    pub(super) time: Vec<Pointer>,
    pub(super) fix: Vec<Pointer>,
    /// What the degrees are of where no place of `system_at` says it.
    pub(super) system: System,
    pub(super) system_at: Vec<Pointer>,
}

/// Places of a number in a unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measure {
    pub(super) at: Vec<Pointer>,
    pub(super) unit: Unit,
}

/// A unit: so many of it are so many metres, or metres a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) units: f64,
    pub(super) metric: f64,
}

impl Unit {
    pub(super) const METRIC: Self = Self::new(1.0, 1.0);
    const FEET: Self = Self::new(10_000.0, 3_048.0);
    const KILOMETRES_PER_HOUR: Self = Self::new(3_600.0, 1_000.0);
    pub(super) const KNOTS: Self = Self::new(3_600.0, 1_852.0);
    const MILES_PER_HOUR: Self = Self::new(3_600.0, 1_609.344);

    const fn new(units: f64, metric: f64) -> Self {
        Self { units, metric }
    }

    /// A number of this unit in metres or metres a second.
    pub(super) fn to_metric(self, number: f64) -> f64 {
        match self == Self::METRIC {
            true => number,
            false => number * self.metric / self.units,
        }
    }
}

impl Rule {
    /// Reads a rule and the products that it is for; none if it has faults, which are then reported.
    pub(super) fn read(entry: &mut Entry<'_, '_>) -> Option<(Vec<String>, Self)> {
        entry.only(KEYS);
        let mut is_good = true;
        let products = products(entry);
        let at = pointers(entry, "at", true, &mut is_good);
        let when = when(entry, &mut is_good);
        let is_nmea = match entry.value("nmea") {
            None => false,
            Some(found) => found.value.as_bool().unwrap_or_else(|| {
                wrong(entry, "nmea", "expected true or false", &mut is_good);
                false
            }),
        };
        let form = match is_nmea {
            false => Form::Numbers(Box::new(Numbers::of(entry, &mut is_good))),
            true => {
                let numbers = KEYS.iter().skip_while(|key| **key != "latitude");
                for key in numbers
                    .filter(|key| entry.value(key).is_some())
                    .collect::<Vec<_>>()
                {
                    wrong(entry, key, "expected none beside `nmea`", &mut is_good);
                }
                Form::Nmea
            }
        };
        let at = match at.is_empty() {
            true => vec![Pointer::new()],
            false => at,
        };
        let products = products?;
        is_good.then_some((products, Self { at, when, form }))
    }
}

impl Numbers {
    fn of(entry: &mut Entry<'_, '_>, is_good: &mut bool) -> Self {
        let mut list = |key| pointers(entry, key, false, is_good);
        let mut numbers = Self {
            latitude: list("latitude"),
            longitude: list("longitude"),
            altitude: measures([
                (list("altitude"), Unit::METRIC),
                (list("altitude_ft"), Unit::FEET),
            ]),
            speed: measures([
                (list("speed"), Unit::METRIC),
                (list("speed_kmh"), Unit::KILOMETRES_PER_HOUR),
                (list("speed_knots"), Unit::KNOTS),
                (list("speed_mph"), Unit::MILES_PER_HOUR),
            ]),
            course: list("course"),
            satellites: list("satellites"),
            hdop: list("hdop"),
            accuracy: list("accuracy"),
            time: list("time"),
            fix: list("fix"),
            system: System::Wgs84,
            system_at: list("system_at"),
        };
        for (key, places) in [
            ("latitude", &numbers.latitude),
            ("longitude", &numbers.longitude),
        ] {
            if places.is_empty() && entry.value(key).is_none() {
                wrong(entry, key, "missing, expected JSON pointers", is_good);
            } else if places.iter().any(Vec::is_empty) {
                wrong(entry, key, "expected pointers to members", is_good);
            }
        }
        if let Some(name) = entry.text("system") {
            match System::from_name(&name.value) {
                Some(system) => numbers.system = system,
                None => wrong(entry, "system", "expected WGS84, GCJ02 or BD09", is_good),
            }
        } else {
            *is_good &= entry.value("system").is_none();
        }
        numbers
    }
}

fn measures<const N: usize>(places: [(Vec<Pointer>, Unit); N]) -> Vec<Measure> {
    let places = places.into_iter().filter(|(at, _)| !at.is_empty());
    places.map(|(at, unit)| Measure { at, unit }).collect()
}

/// The products that an entry names; all, as `*`, where it names none. A fault if there is anything but texts.
pub(super) fn products(entry: &mut Entry<'_, '_>) -> Option<Vec<String>> {
    let mut is_good = true;
    let products = texts(entry, "products", &mut is_good);
    if products.iter().any(String::is_empty) {
        wrong(
            entry,
            "products",
            "expected product ids or \"*\"",
            &mut is_good,
        );
    }
    is_good.then(|| match products.is_empty() {
        true => vec!["*".to_owned()],
        false => products,
    })
}

/// A fault at a key.
fn wrong(entry: &mut Entry<'_, '_>, key: &str, rule: impl fmt::Display, is_good: &mut bool) {
    let place = entry.value(key).map(|found| found.place);
    let place = place.unwrap_or_else(|| entry.place().to_owned());
    entry.fault(&place, format_args!("key `{key}`: {rule}"));
    *is_good = false;
}

/// A text or a list of texts; empty if the key is not there.
fn texts(entry: &mut Entry<'_, '_>, key: &str, is_good: &mut bool) -> Vec<String> {
    let Some(found) = entry.value(key) else {
        return Vec::new();
    };
    let texts: Option<Vec<&str>> = match found.value.as_array() {
        None => found.value.as_str().map(|text| vec![text]),
        Some(items) => items.iter().map(|item| item.get_ref().as_str()).collect(),
    };
    let fits = |texts: &Vec<&str>| {
        (1..=TEXTS_MAX).contains(&texts.len())
            && texts.iter().all(|text| text.len() <= TEXT_BYTES_MAX)
    };
    match texts.filter(fits) {
        Some(texts) => texts.into_iter().map(str::to_owned).collect(),
        None => {
            let rule = format!(
                "expected a text or 1 to {TEXTS_MAX} texts, each of at most {TEXT_BYTES_MAX} bytes"
            );
            wrong(entry, key, rule, is_good);
            Vec::new()
        }
    }
}

/// The JSON pointers of a key; only some may have `*` in them.
fn pointers(entry: &mut Entry<'_, '_>, key: &str, any: bool, is_good: &mut bool) -> Vec<Pointer> {
    let mut pointers = Vec::new();
    for text in texts(entry, key, is_good) {
        match pointer(&text) {
            Ok(tokens) if !any && tokens.iter().any(|token| token == "*") => {
                let rule = format!("found {text:?}, expected `*` only in key `at`");
                wrong(entry, key, rule, is_good);
            }
            Ok(tokens) => pointers.push(tokens),
            Err(rule) => wrong(entry, key, format!("found {text:?}, {rule}"), is_good),
        }
    }
    pointers
}

/// The tokens of a JSON pointer, or what is wrong with it.
fn pointer(text: &str) -> Result<Pointer, String> {
    let Some(rest) = text.strip_prefix('/') else {
        return match text {
            "" => Ok(Pointer::new()),
            _ => Err("expected a JSON pointer, empty or beginning with `/`".to_owned()),
        };
    };
    let tokens = rest.split('/').map(|token| {
        let mut escapes = token.split('~').skip(1);
        match escapes.all(|after| after.starts_with(['0', '1'])) {
            true => Ok(token.replace("~1", "/").replace("~0", "~")),
            false => Err("expected `~` only as `~0` or `~1`".to_owned()),
        }
    });
    let tokens: Pointer = tokens.collect::<Result<_, _>>()?;
    match tokens.len() {
        ..=TOKENS_MAX => Ok(tokens),
        _ => Err(format!("expected at most {TOKENS_MAX} levels")),
    }
}

/// The texts that must be there; a fault for each pointer that is none.
fn when(entry: &mut Entry<'_, '_>, is_good: &mut bool) -> Vec<(Pointer, String)> {
    let texts = entry.texts("when");
    let count = entry
        .value("when")
        .map(|found| found.value.as_table().map_or(1, |table| table.len()));
    // What is no text was told by the entry.
    *is_good &= count.unwrap_or_default() == texts.len();
    let mut conditions = Vec::new();
    for (name, text) in texts {
        match pointer(&name) {
            Ok(tokens) => conditions.push((tokens, text.value)),
            Err(rule) => wrong(entry, "when", format!("found {name:?}, {rule}"), is_good),
        }
    }
    conditions
}
