//! Who is not let in for a while: source addresses, user names and client identifiers whose logins fail too often, devices that connect
//! too often, and whom an operator blocked (G19).
//!
//! Each kind has a table and thresholds of its own, so that many of one kind push out none of another. A full table takes no
//! further ones, and keeps who is blocked. What a stranger says is never a key of more than [`KEY_BYTES_MAX`] bytes.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Config;
use super::rate::{Bucket, Rate, nanos};

/// A longer name is cut; no name of a device is so long.
const KEY_BYTES_MAX: usize = 512;
/// Smaller tables are not swept.
const SWEEP_MIN: usize = 1_024;

/// What is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A source address; an IPv6 one stands for its /64 network.
    Address,
    /// The user name of a CONNECT.
    Username,
    /// The client identifier of a CONNECT.
    ClientId,
    /// A device, `PRODUCT/NAME`, behind its login.
    Device,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Address, Self::Username, Self::ClientId, Self::Device];

    /// Its name, in commands, requests and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Username => "username",
            Self::ClientId => "client_id",
            Self::Device => "device",
        }
    }
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or("expected address, username, client_id or device")
    }
}

/// Why somebody is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Logins failed too often.
    Logins,
    /// The device connected too often.
    Flapping,
    /// An operator said so.
    Operator,
}

impl Why {
    /// Its name, in lists.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Logins => "logins",
            Self::Flapping => "flapping",
            Self::Operator => "operator",
        }
    }
}

/// Somebody who is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// What it is.
    pub kind: Kind,
    /// Which one.
    pub value: String,
    /// Why.
    pub why: Why,
    /// For how long still, in milliseconds.
    pub remaining_ms: u64,
}

/// Somebody was blocked just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocked {
    /// For how long.
    pub(super) time: Duration,
}

#[derive(Debug, Default)]
struct Entry {
    counted: Bucket,
    blocked_until: u64,
    why: Option<Why>,
}

impl Entry {
    fn is_blocked(&self, now: u64) -> bool {
        self.blocked_until > now
    }

    fn block(&mut self, why: Why, time: Duration, now: u64) {
        self.blocked_until = now.saturating_add(nanos(time));
        self.why = Some(why);
        self.counted = Bucket::default();
    }
}

/// How often, and for how long then.
#[derive(Debug, Clone, Copy)]
struct Threshold {
    rate: Option<Rate>,
    why: Why,
    block: Duration,
}

#[derive(Debug)]
struct Table {
    threshold: Threshold,
    entries: HashMap<Box<str>, Entry>,
    /// It is swept when it has so many entries, and not before.
    sweep_at: usize,
    sweep_from: u64,
}

/// Who is blocked on this node, and who comes near to it. Times are nanoseconds of the caller's clock.
#[derive(Debug)]
pub(super) struct Bans {
    entries_max: usize,
    tables: [(Kind, Mutex<Table>); 4],
}

impl Bans {
    pub(super) fn new(config: &Config) -> Self {
        let (logins, flapping) = (&config.logins, &config.flapping);
        let tables = Kind::ALL.map(|kind| {
            let (max, window_s, block_s) = match kind {
                Kind::Address => (logins.address_failures_max, logins.window_s, logins.block_s),
                Kind::Username => (
                    logins.username_failures_max,
                    logins.window_s,
                    logins.block_s,
                ),
                Kind::ClientId => (
                    logins.client_id_failures_max,
                    logins.window_s,
                    logins.block_s,
                ),
                Kind::Device => (flapping.connects_max, flapping.window_s, flapping.block_s),
            };
            let window = Duration::from_secs(window_s);
            let threshold = Threshold {
                rate: Rate::new(max, window, window),
                why: match kind {
                    Kind::Device => Why::Flapping,
                    Kind::Address | Kind::Username | Kind::ClientId => Why::Logins,
                },
                block: Duration::from_secs(block_s),
            };
            let table = Table {
                threshold,
                entries: HashMap::new(),
                sweep_at: SWEEP_MIN,
                sweep_from: 0,
            };
            (kind, Mutex::new(table))
        });
        Self {
            entries_max: config.entries_max,
            tables,
        }
    }

    /// Why this one is blocked, if it is.
    pub(super) fn why(&self, kind: Kind, value: &str, now: u64) -> Option<Why> {
        let table = self.table(kind);
        let entry = table.entries.get(key(value));
        entry.filter(|entry| entry.is_blocked(now))?.why
    }

    /// Counts a failed login, or a connect of a device; says if that blocked it.
    pub(super) fn count(&self, kind: Kind, value: &str, now: u64) -> Option<Blocked> {
        let mut table = self.table(kind);
        let threshold = table.threshold;
        let rate = threshold.rate?;
        let entry = table.entry(key(value), self.entries_max, now)?;
        entry.counted.take(&rate, 1, now);
        if entry.is_blocked(now) || entry.counted.ready_at(&rate) <= now {
            return None;
        }
        entry.block(threshold.why, threshold.block, now);
        Some(Blocked {
            time: threshold.block,
        })
    }

    /// The login of this one was right: what failed before does not count.
    pub(super) fn forgive(&self, kind: Kind, value: &str, now: u64) {
        let mut table = self.table(kind);
        let entry = table.entries.get(key(value));
        if entry.is_some_and(|entry| !entry.is_blocked(now)) {
            table.entries.remove(key(value));
        }
    }

    /// An operator's block; there is always room for it.
    pub(super) fn add(&self, kind: Kind, value: &str, time: Duration, now: u64) {
        let mut table = self.table(kind);
        let entry = table.entries.entry(key(value).into()).or_default();
        entry.block(Why::Operator, time, now);
    }

    /// Forgets this one; whether it was blocked.
    pub(super) fn lift(&self, kind: Kind, value: &str, now: u64) -> bool {
        let lifted = self.table(kind).entries.remove(key(value));
        lifted.is_some_and(|entry| entry.is_blocked(now))
    }

    /// Who is blocked.
    pub(super) fn list(&self, now: u64) -> Vec<Ban> {
        let mut bans = Vec::new();
        for kind in Kind::ALL {
            let table = self.table(kind);
            let blocked = table
                .entries
                .iter()
                .filter(|(_, entry)| entry.is_blocked(now));
            bans.extend(blocked.filter_map(|(value, entry)| {
                Some(Ban {
                    kind,
                    value: value.to_string(),
                    why: entry.why?,
                    remaining_ms: (entry.blocked_until - now).div_ceil(1_000_000),
                })
            }));
        }
        bans.sort_by(|one, other| one.value.cmp(&other.value));
        bans
    }

    fn table(&self, kind: Kind) -> MutexGuard<'_, Table> {
        let found = self.tables.iter().find(|(of, _)| *of == kind);
        let (_, table) = found.expect("there is a table for each kind");
        table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The entry of this one; none where there is no room for it.
    fn entry(&mut self, value: &str, max: usize, now: u64) -> Option<&mut Entry> {
        const SWEEP_EVERY_NS: u64 = 1_000_000_000;
        if self.entries.len() >= self.sweep_at.min(max) && now >= self.sweep_from {
            self.entries
                .retain(|_, entry| entry.is_blocked(now) || !entry.counted.is_full(now));
            self.sweep_from = now + SWEEP_EVERY_NS;
            self.sweep_at = SWEEP_MIN.max(2 * self.entries.len());
        }
        if self.entries.len() >= max {
            return self.entries.get_mut(value);
        }
        Some(self.entries.entry(value.into()).or_default())
    }
}

fn key(value: &str) -> &str {
    let mut end = value.len().min(KEY_BYTES_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.get(..end).unwrap_or_default()
}

#[cfg(test)]
#[path = "bans_tests.rs"]
mod tests;
