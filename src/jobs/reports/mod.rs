//! The jobs about GPS reports and their outbox, by the names that schedulers know them by.
//!
//! `gpsReportScheduleJob` closes windows of reports (`windows`, `summary`), `gpsReportNotificationJob` tells what rules find in them
//! (`notification`, `watch`), `gpsReportOutboxPublishJob` publishes what waits in the outbox. The first two read history behind a
//! position of their own (`progress`) and write what they make of it, their events and that position in one transaction: whatever
//! happens, each is there once.

mod event;
mod notification;
mod progress;
mod registry;
mod rules;
mod summary;
mod watch;
mod windows;

use crate::position::{Flags, System};

pub use registry::{history, registry};
pub use rules::{SpeedRule, SpeedRules};

/// Closes windows of reports and writes what was in them.
pub const SCHEDULE: &str = "gpsReportScheduleJob";
/// One pass of the outbox's relay.
pub const PUBLISH: &str = "gpsReportOutboxPublishJob";
/// What that is for.
pub const PUBLISH_ABOUT: &str = "publishes what waits in the outbox";
/// Tells what rules find in reports.
pub const NOTIFICATION: &str = "gpsReportNotificationJob";

/// A column of `gps_report`: the number of a coordinate system.
fn system(number: i64) -> System {
    let system = i16::try_from(number).ok().and_then(System::from_number);
    // A newer version may know more of them.
    system.unwrap_or(System::Wgs84)
}

/// A column of `gps_report`: the bits of flags.
fn flags(bits: i64) -> Flags {
    Flags::from_bits(u16::try_from(bits).unwrap_or(u16::MAX))
}
