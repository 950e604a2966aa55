//! Limits of requests to devices.

use serde::Deserialize;

/// Limits of requests to devices.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How long a device may take to answer if the sender does not say, in milliseconds.
    pub timeout_ms: u64,
    /// The longest time that a sender may ask for, in milliseconds; more is cut to this.
    pub timeout_max_ms: u64,
    /// Requests under way on one node; the next one is answered `busy`.
    pub requests_max: usize,
    /// Requests under way to one device; the next one is answered `busy`.
    pub device_requests_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout_ms: 5_000,
            timeout_max_ms: 60_000,
            requests_max: 10_000,
            device_requests_max: 16,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults: Vec<String> = [
            ("timeout_ms", self.timeout_ms == 0),
            ("requests_max", self.requests_max == 0),
            ("device_requests_max", self.device_requests_max == 0),
        ]
        .into_iter()
        .filter(|(_, is_zero)| *is_zero)
        .map(|(key, _)| format!("{key}: expected more than 0"))
        .collect();
        if self.timeout_max_ms < self.timeout_ms {
            faults.push(format!(
                "timeout_max_ms: expected at least timeout_ms ({}), found {}",
                self.timeout_ms, self.timeout_max_ms
            ));
        }
        faults
    }
}
