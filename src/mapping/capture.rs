//! What a rule captures from a topic.
//!
//! Each capture is given back by something: the identity by the subject, the rest by a header. A rule cannot invent
//! captures of its own, so none can get lost.

use std::fmt;

/// A named part of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// `{type}`: given back by Jw-Type.
    Type,
    /// `{id}`, a request's: given back by Jw-Topic.
    Id,
    /// `{product}`: only the subject gives it back.
    Product,
    /// `{device}`: only the subject gives it back.
    Device,
}

const ALL: [(Capture, &str); 4] = [
    (Capture::Type, "{type}"),
    (Capture::Id, "{id}"),
    (Capture::Product, "{product}"),
    (Capture::Device, "{device}"),
];

impl Capture {
    /// The capture that this text is; none if it is a literal.
    ///
    /// # Errors
    /// It has braces and is no capture.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let known = ALL.iter().find(|(_, name)| *name == text);
        match known {
            Some((capture, _)) => Ok(Some(*capture)),
            None if text.contains(['{', '}']) => {
                let names = ALL.map(|(_, name)| name).join(", ");
                Err(format!(
                    "unknown capture {text}, expected one of {names}, {{extra...}}"
                ))
            }
            None => Ok(None),
        }
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(capture, _)| capture == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

/// What the captures of one topic or subject hold; empty where there is no such capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Captures<'t> {
    pub(super) kind: &'t str,
    pub(super) id: &'t str,
    pub(super) product: &'t str,
    pub(super) name: &'t str,
    /// There are levels that no other capture holds.
    pub(super) extra: bool,
}

impl<'t> Captures<'t> {
    pub(super) fn get(&self, capture: Capture) -> &'t str {
        match capture {
            Capture::Type => self.kind,
            Capture::Id => self.id,
            Capture::Product => self.product,
            Capture::Device => self.name,
        }
    }

    pub(super) fn set(&mut self, capture: Capture, value: &'t str) {
        match capture {
            Capture::Type => self.kind = value,
            Capture::Id => self.id = value,
            Capture::Product => self.product = value,
            Capture::Device => self.name = value,
        }
    }
}
