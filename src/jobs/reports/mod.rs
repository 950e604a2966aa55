//! The jobs about GPS reports and their outbox, by the names that schedulers know them by.
//!
//! `gpsReportScheduleJob` closes windows of reports (`windows`, `summary`), `gpsReportNotificationJob` tells what rules find in them
//! (`notification`, `watch`), `gpsReportOutboxPublishJob` publishes what waits in the outbox. The first two read history behind a
//! position of their own (`progress`) and write what they make of it, their events and that position in one transaction: whatever
//! happens, each is there once.

mod event;
mod notification;
mod progress;
mod rules;
mod summary;
mod watch;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use super::config::Config;
use super::error::Error;
use super::job::{Job, Registry};
use super::store::Store;
use crate::outbox::Relay;
use crate::outbox::publisher::Publisher;
use crate::outbox::store::Wake;
use crate::position::{Flags, System};

pub use rules::{SpeedRule, SpeedRules};

/// Closes windows of reports and writes what was in them.
pub const SCHEDULE: &str = "gpsReportScheduleJob";
/// One pass of the outbox's relay.
pub const PUBLISH: &str = "gpsReportOutboxPublishJob";
/// What that is for.
pub const PUBLISH_ABOUT: &str = "publishes what waits in the outbox";
/// Tells what rules find in reports.
pub const NOTIFICATION: &str = "gpsReportNotificationJob";

/// All three; `relay` publishes, and is woken by the other two.
#[must_use]
pub fn registry<P: Publisher>(config: &Config, store: &Store, relay: Relay<P>) -> Registry {
    let mut registry = history(config, store, &relay.wake);
    let relay = Arc::new(relay);
    registry.add(Job {
        name: PUBLISH,
        about: PUBLISH_ABOUT,
        limit: config.run_limit(),
        work: Arc::new(move |_| {
            let relay = Arc::clone(&relay);
            Box::pin(async move {
                let passed = relay.pass().await;
                let pass = passed.map_err(|error| Error::Failed(error.to_string()))?;
                Ok(format!(
                    "{} rows published, {} refused, {} dead, {} without an answer",
                    pass.published, pass.refused, pass.dead, pass.unanswered
                ))
            })
        }),
    });
    registry
}

/// The two that read history; what they write into the outbox wakes `wake`.
#[must_use]
pub fn history(config: &Config, store: &Store, wake: &Wake) -> Registry {
    let mut registry = Registry::default();
    let windows = Arc::new(windows::Windows {
        store: store.clone(),
        wake: wake.clone(),
        window_ms: ms(config.window_s),
        grace_ms: ms(config.grace_s),
    });
    registry.add(Job {
        name: SCHEDULE,
        about: "closes windows of GPS reports, a summary for each device",
        limit: config.run_limit(),
        work: Arc::new(move |context| {
            let windows = Arc::clone(&windows);
            Box::pin(async move { windows.run(&context).await })
        }),
    });
    let notification = Arc::new(notification::Notification {
        store: store.clone(),
        wake: wake.clone(),
        rules: watch::Rules::new(config),
    });
    registry.add(Job {
        name: NOTIFICATION,
        about: "tells of devices that are too fast, stand still, or cross a fence",
        limit: config.run_limit(),
        work: Arc::new(move |context| {
            let notification = Arc::clone(&notification);
            Box::pin(async move { notification.run(&context).await })
        }),
    });
    registry
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(Duration::from_secs(seconds).as_millis()).unwrap_or(i64::MAX)
}

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
