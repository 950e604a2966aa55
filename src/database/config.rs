//! Where the database is, and how long it may take.

use std::time::Duration;

use serde::Deserialize;

/// Which database, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `sqlite:<path>`, `postgres://user:password@host/database` or `mysql://user:password@host/database`.
    pub url: String,
    /// Connections at the same time, of each of its users: logins, GPS reports, the outbox.
    pub connections_max: u32,
    /// How long a statement may wait for a free connection, and then for another writer, in milliseconds.
    pub busy_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "sqlite:jetway.db".to_owned(),
            connections_max: 4,
            busy_timeout_ms: 5_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=100).contains(&self.connections_max) {
            faults.push(format!(
                "connections_max is {}, expected 1 to 100",
                self.connections_max
            ));
        }
        if !(1..=60_000).contains(&self.busy_timeout_ms) {
            faults.push(format!(
                "busy_timeout_ms is {}, expected 1 to 60000",
                self.busy_timeout_ms
            ));
        }
        faults
    }

    /// How long a connection or another writer is waited for.
    #[must_use]
    pub fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.busy_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_cannot_work_are_faults() {
        assert_eq!(Config::default().validate(), Vec::<String>::new());
        let config = Config {
            connections_max: 0,
            busy_timeout_ms: 0,
            ..Config::default()
        };
        let faults = config.validate();
        assert!(faults[0].starts_with("connections_max is 0"));
        assert!(faults[1].starts_with("busy_timeout_ms is 0"));
    }
}
