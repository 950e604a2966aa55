//! Where devices say that they are: positions found in reports by rules, and what a device's track tells.
//!
//! Pure: no connection, no clock, no logging; times are arguments. The same message, rules and track give the same reports, faults
//! and changes. What becomes of them (rows, events, dead letters) is `gps`'s matter.
//! Invariants: coordinates are never swapped, clamped or rounded; a message costs time and memory in proportion to its
//! bytes and gives at most [`POINTS_MAX`] reports; only a report with a fix and a plausible time moves a latest position.

mod convert;
mod extraction;
mod fence;
mod flags;
mod geometry;
mod nmea;
mod point;
mod report;
mod rule;
mod rules;
mod sphere;
mod time;
mod track;
mod tree;
mod trip;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod message_tests;

pub use convert::{System, convert};
pub use extraction::{Extraction, FAULTS_MAX, POINTS_MAX, Source, extract};
pub use fence::{Circle, FenceConfig, Fences};
pub use flags::Flags;
pub use report::Report;
pub use rules::{Rules, SHIPPED, Settings};
pub use sphere::{Point, distance_m};
pub use track::{Change, Fix, Sampling, Step, Track, Watching};
pub use trip::TripConfig;
