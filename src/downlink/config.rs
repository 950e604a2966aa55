//! What may wait for a device that is away.

use serde::Deserialize;

/// Bytes of one page that is read ahead before anything is given up; the limit is larger.
const QUEUE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// What may wait for a device. How many messages that is, the delivery stream says: it refuses the next one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Bytes that a device gets when it is back; of more the oldest go to the dead letters (`overflow`).
    pub queue_bytes_max: u64,
    /// How long a downlink waits at most, in seconds, whatever its sender says; after it, it goes to the dead letters
    /// (`expired`). Shorter than the delivery stream's `max_age`.
    pub lifetime_max_s: u64,
    /// Lifetimes given by senders that one gateway keeps in mind for devices that are away; for more the stream is read again.
    pub lifetimes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queue_bytes_max: 64 * 1024 * 1024,
            lifetime_max_s: 6 * 24 * 60 * 60,
            lifetimes_max: 100_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.queue_bytes_max < QUEUE_BYTES_MIN {
            faults.push(format!(
                "queue_bytes_max: expected at least {QUEUE_BYTES_MIN}, found {}",
                self.queue_bytes_max
            ));
        }
        for (key, is_zero) in [
            ("lifetime_max_s", self.lifetime_max_s == 0),
            ("lifetimes_max", self.lifetimes_max == 0),
        ] {
            if is_zero {
                faults.push(format!("{key}: expected more than 0"));
            }
        }
        faults
    }

    /// Until when a message waits that was stored at `time_ms`, Unix milliseconds.
    #[must_use]
    pub fn waits_until_ms(&self, time_ms: u64) -> u64 {
        time_ms.saturating_add(self.lifetime_max_s.saturating_mul(1000))
    }
}
