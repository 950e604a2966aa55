//! `/health/mq`: a row for each provisioned durable, and whether all of them are well.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::config::Config;
use super::measured::{Durable, Measured};

/// Rounds that may be missing before what was measured counts as unknown.
const ROUNDS_MISSED_MAX: u32 = 3;

/// The answer, as JSON.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether every row is well and was measured lately.
    pub ok: bool,
    /// When all was measured, in milliseconds before now; none before the first time.
    pub measured_ms_ago: Option<u64>,
    /// A row for each durable, in the order of the configuration.
    pub durables: Vec<Row>,
}

/// One durable.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Of which stream.
    pub stream: String,
    /// Its name.
    pub durable: String,
    /// Whether it has no fault.
    pub ok: bool,
    /// Whether somebody has pulled or acknowledged lately.
    pub alive: bool,
    /// Messages that it has not delivered yet.
    pub lag: u64,
    /// Age of its oldest message without acknowledgement, in seconds.
    pub oldest_seconds: u64,
    /// Messages delivered and not acknowledged.
    pub ack_pending: u64,
    /// How many of those were delivered more than once.
    pub retrying: u64,
    /// Messages acknowledged since this node began to look.
    pub handled: u64,
    /// Tries that ended without acknowledgement since then.
    pub failed: u64,
    /// From delivery to acknowledgement, of the slowest in a hundred of the last ones, in seconds.
    pub p99_seconds: Option<f64>,
    /// What is wrong, in words.
    pub faults: Vec<String>,
}

impl Report {
    pub(super) fn new(measured: &Measured, config: &Config, now: Instant) -> Self {
        let ago = measured.complete_at.map(|at| now.duration_since(at));
        let interval = Duration::from_millis(config.interval_ms);
        let is_fresh = ago.is_some_and(|ago| ago <= interval * ROUNDS_MISSED_MAX);
        let rows = measured.durables.iter();
        let durables: Vec<Row> = rows.map(|durable| row(durable, config, now)).collect();
        Self {
            ok: is_fresh && durables.iter().all(|row| row.ok),
            measured_ms_ago: ago.and_then(|ago| ago.as_millis().try_into().ok()),
            durables,
        }
    }
}

fn row(durable: &Durable, config: &Config, now: Instant) -> Row {
    let within = Duration::from_secs(config.alive_within_s);
    let served = durable.served_at.map(|at| now.duration_since(at));
    let alive = served.is_some_and(|ago| ago <= within);
    let state = durable.state.clone().unwrap_or_default();
    let mut faults = Vec::new();
    if durable.state.is_none() {
        faults.push("there is no such durable".to_owned());
    } else if !alive {
        faults.push(format!("nobody has pulled for {} s", config.alive_within_s));
    }
    if state.pending > config.lag_max {
        faults.push(format!("more than {} messages wait", config.lag_max));
    }
    Row {
        stream: durable.stream.clone(),
        durable: durable.name.clone(),
        ok: faults.is_empty(),
        alive,
        lag: state.pending,
        oldest_seconds: durable.oldest_age_ms / 1_000,
        ack_pending: state.ack_pending,
        retrying: state.redelivered,
        handled: durable.tally.handled,
        failed: durable.tally.failed,
        p99_seconds: durable.tally.p99.map(|p99| p99.as_secs_f64()),
        faults,
    }
}
