//! Limits and choices of the event workers.

use std::time::Duration;

use serde::Deserialize;

use crate::jetstream::atomic;
use crate::thing::{Settings, Shape, Unknown};

/// How events are made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Shards; a device's events always come from the same one. The same on all nodes, and it stays as it was at the first start:
    /// a worker with another number does nothing.
    pub shards: u32,
    /// How long a worker that does not renew its lease keeps the others waiting, in milliseconds; full seconds count.
    pub lease_ms: u64,
    /// Bytes of events that are stored in one piece, and of what is read ahead meanwhile; the events of one message always fit.
    pub batch_bytes_max: usize,
    /// How bodies look, also those of connection events for applications: `envelope` or `unitedrhino`.
    pub shape: Shape,
    /// An event for each property, beside the one of the whole report.
    pub each_property: bool,
    /// What becomes of properties that a product's model does not have: `keep`, `drop` or `dead_letter`.
    pub unknown_property: Unknown,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 1,
            lease_ms: 3_000,
            batch_bytes_max: 8 * 1024 * 1024,
            shape: Shape::default(),
            each_property: false,
            unknown_property: Unknown::default(),
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=64).contains(&self.shards) {
            faults.push(format!("shards: expected 1 to 64, found {}", self.shards));
        }
        if !(1_000..=60_000).contains(&self.lease_ms) {
            faults.push(format!(
                "lease_ms: expected 1000 to 60000, found {}",
                self.lease_ms
            ));
        }
        if !(64 * 1024..=64 * 1024 * 1024).contains(&self.batch_bytes_max) {
            faults.push(format!(
                "batch_bytes_max: expected 65536 to 67108864, found {}",
                self.batch_bytes_max
            ));
        }
        faults
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// `message_bytes_max`: what NATS takes.
    pub(super) fn settings(&self, message_bytes_max: usize) -> Settings {
        Settings {
            shape: self.shape,
            each_property: self.each_property,
            unknown_property: self.unknown_property,
            message_bytes_max: message_bytes_max.saturating_sub(atomic::HEADERS_BYTES),
        }
    }
}
