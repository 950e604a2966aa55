//! Times of ownership.

use std::time::Duration;

use serde::Deserialize;

/// How nodes own sessions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// After so many seconds without a sign of life a node's devices are reported as disconnected (`node_lost`).
    pub lease_s: u64,
    /// How long another node may take to let a device go, in milliseconds; after it the device is taken by force.
    pub release_timeout_ms: u64,
    /// How long progress of a session that nobody waits for may stay unwritten, in milliseconds.
    pub save_interval_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_s: 6,
            release_timeout_ms: 3_000,
            save_interval_ms: 1_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(2..=3_600).contains(&self.lease_s) {
            faults.push(format!(
                "lease_s: expected 2 to 3600, found {}",
                self.lease_s
            ));
        }
        for (key, value) in [
            ("release_timeout_ms", self.release_timeout_ms),
            ("save_interval_ms", self.save_interval_ms),
        ] {
            if value == 0 {
                faults.push(format!("{key}: expected more than 0"));
            }
        }
        faults
    }

    /// [`Self::lease_s`].
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }
}
