//! Limits of a connection.

use std::time::Duration;

use serde::Deserialize;

use crate::registry::Limit;

/// Limits of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// From the accepted socket to the answered CONNECT, in milliseconds (G15).
    pub handshake_timeout_ms: u64,
    /// How long a device may not take any byte of what is written to it, in milliseconds (G04).
    pub write_timeout_ms: u64,
    /// Bytes written to a device that it has not taken; beyond it nothing more is read from it or taken for it.
    pub outbound_bytes_max: usize,
    /// Bytes read from a device that is held back, to find its PINGREQs (G27).
    pub read_ahead_bytes_max: usize,
    /// Downlinks that wait in memory for a device that does not take them; more are read back from the stream later.
    pub downlink_queue_max: u32,
    /// Bytes of these downlinks.
    pub downlink_queue_bytes_max: u32,
    /// Largest CONNECT in bytes: who has not logged in is not given more memory than that.
    pub connect_bytes_max: u32,
    /// Whether requests of gateway devices about their sub-devices (bind, unbind, getTopo, online, offline) are answered from the
    /// catalogue; otherwise they are for services alone.
    pub answers_topology: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            handshake_timeout_ms: 10_000,
            write_timeout_ms: 20_000,
            outbound_bytes_max: 256 * 1024,
            read_ahead_bytes_max: 64 * 1024,
            downlink_queue_max: 256,
            downlink_queue_bytes_max: 2 * 1024 * 1024,
            connect_bytes_max: 64 * 1024,
            answers_topology: true,
        }
    }
}

impl Config {
    /// From the accepted socket to the answered CONNECT.
    #[must_use]
    pub fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    /// What a mailbox has room for.
    #[must_use]
    pub fn mailbox(&self) -> Limit {
        Limit {
            messages: self.downlink_queue_max,
            bytes: self.downlink_queue_bytes_max,
        }
    }

    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("write_timeout_ms", self.write_timeout_ms),
            ("outbound_bytes_max", self.outbound_bytes_max as u64),
            ("read_ahead_bytes_max", self.read_ahead_bytes_max as u64),
            ("downlink_queue_max", self.downlink_queue_max.into()),
            (
                "downlink_queue_bytes_max",
                self.downlink_queue_bytes_max.into(),
            ),
            ("connect_bytes_max", self.connect_bytes_max.into()),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("{key}: expected more than 0"))
        .collect()
    }
}
