//! Where positions are, what is looked for in them, and how long they are kept.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::position::{FenceConfig, Fences, Sampling, Settings, System, TripConfig};

/// How GPS reports are stored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// An operator's own rules beside `subjects/positions.toml`, in its form.
    pub rules_file: Option<PathBuf>,
    /// Shards; a device's reports are always written by the same one. The same on all nodes, and it stays as it was at the first
    /// start: a worker with another number does nothing.
    pub shards: u32,
    /// How long a worker that does not renew its lease keeps the others waiting, in milliseconds; full seconds count.
    pub lease_ms: u64,
    /// Reports that are written in one transaction, unless one message has more.
    pub batch_rows_max: usize,
    /// The coordinate system that all positions are converted to: `WGS84`, `GCJ02` or `BD09`; none: they stay as they are tagged.
    pub convert_to: Option<System>,
    /// How far a device's time may be ahead of the gateway's, in seconds.
    pub future_max_s: u64,
    /// How far it may be behind.
    pub past_max_s: u64,
    /// With this or the distance set, only points of a track are kept that are so many seconds after the last one that was kept.
    pub sample_interval_s: u64,
    /// Or so many metres away from it.
    pub sample_distance_m: f64,
    /// How long history is kept, in seconds from when a report was received; 0: for ever.
    pub retention_s: u64,
    /// Fences.
    pub fence: Vec<FenceConfig>,
    /// Trips; without it none are told.
    pub trip: Option<TripConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rules_file: None,
            shards: 1,
            lease_ms: 3_000,
            batch_rows_max: 2_000,
            convert_to: None,
            future_max_s: 300,
            past_max_s: 7 * 86_400,
            sample_interval_s: 0,
            sample_distance_m: 0.0,
            retention_s: 90 * 86_400,
            fence: Vec::new(),
            trip: None,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut within = |key: &str, value: u64, min: u64, max: u64| {
            if !(min..=max).contains(&value) {
                faults.push(format!("{key}: expected {min} to {max}, found {value}"));
            }
        };
        const YEARS_S: u64 = 100 * 365 * 86_400;
        within("shards", self.shards.into(), 1, 64);
        within("lease_ms", self.lease_ms, 1_000, 60_000);
        within("batch_rows_max", self.batch_rows_max as u64, 1, 10_000);
        within("future_max_s", self.future_max_s, 0, YEARS_S);
        within("past_max_s", self.past_max_s, 0, YEARS_S);
        within("sample_interval_s", self.sample_interval_s, 0, 86_400);
        within("retention_s", self.retention_s, 0, YEARS_S);
        if !(0.0..=1_000_000.0).contains(&self.sample_distance_m) {
            let found = self.sample_distance_m;
            faults.push(format!(
                "sample_distance_m: expected 0 to 1000000, found {found}"
            ));
        }
        faults.extend(Fences::new(&self.fence).err().into_iter().flatten());
        faults.extend(self.trip.iter().flat_map(TripConfig::faults));
        faults
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// What the rules are read with.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            convert_to: self.convert_to,
            future_max_ms: self.future_max_s * 1_000,
            past_max_ms: self.past_max_s * 1_000,
        }
    }

    /// Which points are kept; none: all.
    pub(super) fn sampling(&self) -> Option<Sampling> {
        let samples = self.sample_interval_s > 0 || self.sample_distance_m > 0.0;
        samples.then_some(Sampling {
            interval_ms: self.sample_interval_s * 1_000,
            distance_m: self.sample_distance_m,
        })
    }
}
