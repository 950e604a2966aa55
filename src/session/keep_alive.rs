//! Whether the device still speaks. Only what it sends counts (G03).

use std::time::{Duration, Instant};

/// One connection's keep alive.
#[derive(Debug)]
pub(super) struct KeepAlive {
    timeout: Duration,
    received: Instant,
}

impl KeepAlive {
    /// `seconds` is the interval in force, never 0.
    pub(super) fn new(seconds: u16, now: Instant) -> Self {
        Self {
            timeout: Duration::from_secs(seconds.into()) * 3 / 2,
            received: now,
        }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.received = now;
    }

    /// When silence becomes a loss.
    pub(super) fn deadline(&self) -> Instant {
        self.received + self.timeout
    }
}
