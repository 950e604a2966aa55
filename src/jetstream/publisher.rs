//! One stream's publisher: shards that store messages in order and once, in batches where the stream takes them, and say so.
//!
//! Whoever publishes first takes a [`Permit`] counted in bytes; without one it waits, and that is the whole
//! back-pressure (G-BOUND): permits bound every queue here. A device always uses the same shard (G-ORDER).
//! A shard sends what waits as one batch, committed by its last message, and opens the next only after the answer: no
//! timer, so a lone message leaves at once and a crowd leaves together. After any failure it re-sends the unfinished
//! messages in their order, with the same `Nats-Msg-Id`, so that none is stored twice (G-ONCE).

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::guard::Guards;
use super::protocol::Protocol;
use super::provision::Stream;
use super::shard::Shard;
use super::{Fence, Link, Receipts, Refusal};
use crate::message::{Message, Subject};
use crate::tasks::{OnExit, Tasks};

/// What a message costs beside its content: our own headers, and our bookkeeping.
const OVERHEAD_BYTES: usize = 512;

/// So many messages of all devices wait under load alone: at fewer, an answer is there within a batch or two.
const PRESSED_MESSAGES: i64 = 256;

/// Limits of one stream's publisher.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Publisher shards; a device's messages always go through the same one.
    pub shards: usize,
    /// Bytes that may wait for the stream's acknowledgement, all devices together.
    pub inflight_bytes_max: usize,
    /// How long a batch may stay unanswered before it is sent again, in milliseconds.
    pub ack_timeout_ms: u64,
    /// How long an unanswered message is sent again, in milliseconds; must be shorter than the stream's duplicate window.
    pub retry_budget_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 2,
            inflight_bytes_max: 64 * 1024 * 1024,
            ack_timeout_ms: 2_000,
            retry_budget_ms: 60_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=64).contains(&self.shards) {
            faults.push(format!("shards: expected 1 to 64, found {}", self.shards));
        }
        if !(1024 * 1024..=u32::MAX as usize).contains(&self.inflight_bytes_max) {
            faults.push(format!(
                "inflight_bytes_max: expected 1048576 to {}, found {}",
                u32::MAX,
                self.inflight_bytes_max
            ));
        }
        if self.ack_timeout_ms == 0 || self.ack_timeout_ms >= self.retry_budget_ms {
            faults.push(format!(
                "ack_timeout_ms: expected more than 0 and less than retry_budget_ms ({}), found {}",
                self.retry_budget_ms, self.ack_timeout_ms
            ));
        }
        faults
    }
}

/// The right to publish one message of a size; given back when the message is finished, or when dropped.
#[derive(Debug)]
pub struct Permit {
    bytes: u32,
    pool: Arc<Semaphore>,
}

impl Permit {
    /// Takes a part of it away, as a permit of its own.
    #[must_use]
    pub fn part(&mut self, bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).map_or(self.bytes, |bytes| bytes.min(self.bytes));
        self.bytes -= bytes;
        Self {
            bytes,
            pool: Arc::clone(&self.pool),
        }
    }

    /// Leaves the bytes taken: the shard gives them back when the message is finished.
    pub(super) fn into_bytes(mut self) -> u32 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.add_permits(self.bytes as usize);
    }
}

/// A message on its way, as its shard keeps it.
pub(super) struct Outgoing {
    pub(super) message: Message,
    /// The same for all messages of one key, and rarely for those of another.
    pub(super) device: u64,
    /// Where a copy goes, not stored, once the message is.
    pub(super) live: Option<Subject>,
    pub(super) bytes: u32,
    pub(super) receipts: Option<Arc<Receipts>>,
    /// When a batch with it was first sent; from then on it may be stored without our knowing, until an answer tells.
    pub(super) sent_at: Option<Instant>,
    /// Set when the stream refused it; it is finished when its turn comes.
    pub(super) refusal: Option<Refusal>,
}

/// Handle to the publisher of one stream; cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    shards: Arc<[mpsc::Sender<Outgoing>]>,
    pool: Arc<Semaphore>,
    capacity: usize,
    metrics: Metrics,
    stored_sequence: Arc<AtomicU64>,
}

impl Publisher {
    /// Starts the shards that publish into `stream`, by the best protocol that it allows, for connections that are behind the
    /// `fence`.
    #[must_use]
    pub fn start(
        stream: &Stream,
        config: &Config,
        link: &Link,
        fence: Option<&Arc<dyn Fence>>,
        tasks: &Tasks,
        shutdown: &CancellationToken,
    ) -> Self {
        let protocol = Protocol::of(&stream.config);
        tracing::info!(stream = stream.name, ?protocol, "publishing");
        let metrics = Metrics::default();
        let pool = Arc::new(Semaphore::new(config.inflight_bytes_max));
        let stored_sequence = Arc::<AtomicU64>::default();
        let shards = (0..config.shards)
            .map(|_| {
                // Every queued message holds a permit of at least OVERHEAD_BYTES, so this can never be full.
                let (sender, queue) = mpsc::channel(config.inflight_bytes_max / OVERHEAD_BYTES + 1);
                let shard = Shard {
                    stream: stream.name.as_str().into(),
                    protocol,
                    link: link.clone(),
                    connects: 0,
                    fence: fence.cloned(),
                    queue,
                    pool: Arc::clone(&pool),
                    metrics: metrics.clone(),
                    stored_sequence: Arc::clone(&stored_sequence),
                    ack_timeout: Duration::from_millis(config.ack_timeout_ms),
                    retry_budget: Duration::from_millis(config.retry_budget_ms),
                    unfinished: VecDeque::new(),
                    batches: 0,
                    waiting: 0,
                    stalled: false,
                    wire: None,
                    replicated: None,
                    guards: Guards::default(),
                };
                tasks.spawn("publisher", OnExit::Shutdown, shard.run(shutdown.clone()));
                sender
            })
            .collect();
        Self {
            shards,
            pool,
            capacity: config.inflight_bytes_max,
            metrics,
            stored_sequence,
        }
    }

    fn cost(&self, content_bytes: usize) -> u32 {
        u32::try_from((content_bytes + OVERHEAD_BYTES).min(self.capacity)).unwrap_or(u32::MAX)
    }

    /// A permit for a message with so much content (subject, headers, payload), if there is room now.
    #[must_use]
    pub fn try_permit(&self, content_bytes: usize) -> Option<Permit> {
        let bytes = self.cost(content_bytes);
        self.pool.try_acquire_many(bytes).ok()?.forget();
        Some(self.permit_of(bytes))
    }

    /// A permit for a message with so much content, once there is room.
    pub async fn permit(&self, content_bytes: usize) -> Permit {
        let bytes = self.cost(content_bytes);
        if let Ok(permit) = self.pool.acquire_many(bytes).await {
            permit.forget();
        }
        self.permit_of(bytes)
    }

    fn permit_of(&self, bytes: u32) -> Permit {
        Permit {
            bytes,
            pool: Arc::clone(&self.pool),
        }
    }

    /// Publishes behind all earlier messages of the same `key`; `receipts`, if given, counts it when it is finished.
    ///
    /// `live` names a subject that gets a copy, not stored, after the message is.
    pub fn publish(
        &self,
        key: &str,
        message: Message,
        live: Option<Subject>,
        permit: Permit,
        receipts: Option<&Arc<Receipts>>,
    ) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let outgoing = Outgoing {
            message,
            device: hash,
            live,
            bytes: permit.into_bytes(),
            receipts: receipts.map(Arc::clone),
            sent_at: None,
            refusal: None,
        };
        let shards = self.shards.len().max(1) as u64;
        let index = usize::try_from(hash % shards).unwrap_or(0);
        let Some(shard) = self.shards.get(index) else {
            return;
        };
        if shard.try_send(outgoing).is_err() {
            // Only after the shards were stopped: nobody waits for this message any more.
            tracing::error!("message dropped: its publisher has stopped");
        }
    }

    /// Returns once nothing waits for an acknowledgement.
    pub async fn drained(&self) {
        let all = u32::try_from(self.capacity).unwrap_or(u32::MAX);
        drop(self.pool.acquire_many(all).await);
    }

    /// A stream sequence that is known to be used: what is stored later has a higher one.
    #[must_use]
    pub fn stored_sequence(&self) -> u64 {
        self.stored_sequence.load(Ordering::Acquire)
    }

    /// The stream is another one now, whose sequences begin anew.
    pub fn forget_sequence(&self) {
        self.stored_sequence.store(0, Ordering::Release);
    }

    /// Publishes its figures under `prefix`.
    pub fn register(&self, registry: &mut Registry, prefix: &'static str) {
        let registry = registry.sub_registry_with_prefix(prefix);
        let metrics = &self.metrics;
        registry.register(
            "stored",
            "Messages acknowledged by the stream",
            metrics.stored.clone(),
        );
        registry.register(
            "stored_bytes",
            "Payload bytes acknowledged",
            metrics.stored_bytes.clone(),
        );
        registry.register(
            "refused",
            "Messages refused for good",
            metrics.refused.clone(),
        );
        registry.register("batches", "Batches sent", metrics.batches.clone());
        registry.register(
            "guarded",
            "Batches sent without message ids",
            metrics.guarded.clone(),
        );
        registry.register("retries", "Batches sent again", metrics.retries.clone());
        registry.register("live", "Live copies published", metrics.live.clone());
        registry.register(
            "waiting",
            "Messages waiting in the shards",
            metrics.waiting.clone(),
        );
        registry.register(
            "stalled_seconds",
            "For how long a shard has had no answer",
            metrics.stalled.clone(),
        );
    }

    /// Whether much waits for a stream that takes what it is sent.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.metrics.waiting.get() >= PRESSED_MESSAGES && self.metrics.stalled.get() == 0
    }

    /// For how long the shards have had no answer to what they sent, in seconds; 0 while all is well.
    #[must_use]
    pub fn stalled_seconds(&self) -> i64 {
        self.metrics.stalled.get()
    }
}

/// Counted by the shards of one publisher together.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    pub(super) stored: Counter,
    pub(super) stored_bytes: Counter,
    pub(super) refused: Counter,
    pub(super) batches: Counter,
    pub(super) guarded: Counter,
    pub(super) retries: Counter,
    pub(super) live: Counter,
    pub(super) waiting: Gauge,
    pub(super) stalled: Gauge,
}
