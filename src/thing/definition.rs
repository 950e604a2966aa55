//! What a value has to be, by the product's model (profile §4.2), and whether it is.
//!
//! The platform makes values fit: it clamps, rounds and cuts. Here a value fits or is a fault, and what goes out is what the device
//! said. Objects are checked member by member; members that the model does not have are passed over, and none has to be there.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;

use super::request::{elements, members, string};
use crate::event::{Fault, Members, descend, reason};

/// How far from a step a number may be, in steps: decimal fractions have no exact binary form.
const STEP_TOLERANCE: f64 = 1e-6;
/// How much of a value a fault tells, in bytes.
const FOUND_BYTES_MAX: usize = 48;

/// The definition of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Definition {
    Any,
    Bool,
    Number(Number),
    /// At most so many characters.
    Text(Option<usize>),
    /// One of these, as a text or a number.
    Enum(Vec<String>),
    Array {
        max: Option<usize>,
        of: Box<Self>,
    },
    Struct(BTreeMap<String, Self>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    pub(super) kind: Kind,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    /// Values are this and whole steps away from it.
    pub(super) start: f64,
    pub(super) step: Option<f64>,
    pub(super) unit: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Float,
    /// A whole number of time units since 1970, not negative.
    Timestamp,
}

impl Definition {
    /// Whether a value at `path` is what it has to be. `path` is longer afterwards where that is not so.
    pub(super) fn check(&self, value: &RawValue, path: &mut String) -> Result<(), Fault> {
        let text = value.get();
        let broken = match self {
            Self::Any => return Ok(()),
            Self::Bool => match text {
                "true" | "false" | "0" | "1" => return Ok(()),
                _ => (reason::TYPE, "a bool".to_owned()),
            },
            Self::Number(number) => match number.broken(text) {
                None => return Ok(()),
                Some(reason) => (reason, number.to_string()),
            },
            Self::Text(max) => match (string(value), max) {
                (None, _) => (reason::TYPE, "a string".to_owned()),
                (Some(found), Some(max)) if found.chars().count() > *max => {
                    (reason::LENGTH, format!("at most {max} characters"))
                }
                _ => return Ok(()),
            },
            Self::Enum(values) => {
                let found = match text.as_bytes().first() {
                    Some(b'"') => string(value),
                    Some(b'-' | b'0'..=b'9') => Some(text.into()),
                    _ => None,
                };
                match found {
                    None => (reason::TYPE, "an enum".to_owned()),
                    Some(found) if values.iter().any(|value| *value == found) => return Ok(()),
                    Some(_) => (reason::ENUM, format!("one of {}", values.join(", "))),
                }
            }
            Self::Array { max, of } => match (elements(Some(value), path), max) {
                (Err(_), _) => (reason::TYPE, "an array".to_owned()),
                (Ok(elements), Some(max)) if elements.len() > *max => {
                    (reason::LENGTH, format!("at most {max} elements"))
                }
                (Ok(elements), _) => return of.check_all(&elements, path),
            },
            Self::Struct(definitions) => match members(Some(value), path) {
                Ok(Some(members)) => return check_members(definitions, &members, path),
                _ => (reason::TYPE, "a struct".to_owned()),
            },
        };
        let (reason, expected) = broken;
        let found = text.get(..text.floor_char_boundary(FOUND_BYTES_MAX));
        let found = found.unwrap_or_default();
        let rule = format!("found {found}, expected {expected}");
        Err(Fault::new(reason, path.as_str(), rule))
    }

    fn check_all(&self, elements: &[&RawValue], path: &mut String) -> Result<(), Fault> {
        let own = path.len();
        for (index, element) in elements.iter().enumerate() {
            path.truncate(own);
            descend(path, &index.to_string());
            self.check(element, path)?;
        }
        Ok(())
    }
}

fn check_members(
    definitions: &BTreeMap<String, Definition>,
    members: &Members<'_>,
    path: &mut String,
) -> Result<(), Fault> {
    let own = path.len();
    for (name, member) in &members.0 {
        if let Some(definition) = definitions.get(&**name) {
            path.truncate(own);
            descend(path, name);
            definition.check(member, path)?;
        }
    }
    Ok(())
}

impl Number {
    /// The rule that a value breaks.
    fn broken(&self, text: &str) -> Option<&'static str> {
        // `parse` takes more than JSON's numbers, such as `inf`; this text is JSON.
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let Some(value) = text.parse::<f64>().ok().filter(|_| is_number) else {
            return Some(reason::TYPE);
        };
        if self.kind != Kind::Float && value.fract() != 0.0 {
            return Some(reason::TYPE);
        }
        let min = match self.kind {
            Kind::Timestamp => Some(self.min.unwrap_or(0.0).max(0.0)),
            _ => self.min,
        };
        if min.is_some_and(|min| value < min) || self.max.is_some_and(|max| value > max) {
            return Some(reason::RANGE);
        }
        let steps = (value - self.start) / self.step?;
        let off = (steps - steps.round()).abs();
        // Beyond 2^53 a number has no fraction to be off by.
        (off > STEP_TOLERANCE.max(steps.abs() * 1e-12)).then_some(reason::STEP)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Int => "an int",
            Kind::Float => "a float",
            Kind::Timestamp => "a timestamp",
        })?;
        if let Some(min) = self.min {
            write!(f, " from {min}")?;
        }
        if let Some(max) = self.max {
            write!(f, " to {max}")?;
        }
        if !self.unit.is_empty() {
            write!(f, " {}", self.unit)?;
        }
        match self.step {
            Some(step) => write!(f, " in steps of {step}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
