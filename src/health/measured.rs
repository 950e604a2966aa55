//! What one round of looking found: durables, streams, dead letters. Plain data.

use std::time::Duration;

use tokio::time::Instant;

use crate::jetstream::{DurableState, StreamState};

/// Everything that was measured, each part as of the last time that it was answered for.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// When the last round ended in which everything was answered; none before the first.
    pub(super) complete_at: Option<Instant>,
    /// In the order of the configuration.
    pub(super) durables: Vec<Durable>,
    /// In the order of the configuration.
    pub(super) streams: Vec<Stream>,
    /// Grouped by where they fell out and why.
    pub(super) dead_letters: Vec<Dead>,
    /// None if there is none, or it was never answered for.
    pub(super) outbox: Option<Outbox>,
}

/// What waits in the database to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outbox {
    /// Rows that are not published and not dead.
    pub(super) waiting: u64,
    /// For how long the oldest of them has waited.
    pub(super) oldest: Duration,
    /// Rows that have used up their attempts.
    pub(super) dead: u64,
}

/// One provisioned durable consumer.
#[derive(Debug, Clone, Default)]
pub(super) struct Durable {
    /// Of which stream.
    pub(super) stream: String,
    /// Its name.
    pub(super) name: String,
    /// None if the server knows none of this name.
    pub(super) state: Option<DurableState>,
    /// For how long its oldest message without acknowledgement has been stored, in milliseconds; 0 if there is none.
    pub(super) oldest_age_ms: u64,
    /// When somebody was last seen to work for it.
    pub(super) served_at: Option<Instant>,
    /// What became of its messages.
    pub(super) tally: Tally,
}

/// What became of a durable's messages since this node began to look. Counted when a message is finished, with all its tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Acknowledged.
    pub(super) handled: u64,
    /// Tries that ended without acknowledgement.
    pub(super) failed: u64,
    /// Deliveries beyond each message's first.
    pub(super) redelivered: u64,
    /// How long the slowest in a hundred of the last ones took from delivery to acknowledgement.
    pub(super) p99: Option<Duration>,
}

/// One stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// Its name.
    pub(super) name: String,
    /// None if the server knows none of this name.
    pub(super) state: Option<StreamState>,
    /// For how long its oldest message has been stored, in milliseconds; 0 if there is none.
    pub(super) oldest_age_ms: u64,
}

/// Dead letters that fell out at the same place for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dead {
    /// What gave them up, such as `durable`.
    pub(super) origin: String,
    /// Why, in a word.
    pub(super) reason: String,
    /// How many the stream holds.
    pub(super) count: u64,
    /// The sequence of the last one.
    pub(super) last_sequence: u64,
    /// The durable that the last one fell out of; empty if it was none.
    pub(super) durable: String,
    /// What the last one is.
    pub(super) event: String,
    /// How often the last one was tried, if it says so.
    pub(super) attempts: Option<u64>,
    /// The trace of the last one.
    pub(super) trace_id: String,
}
