//! What the GPS workers of this node did, and how far they are behind.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    reason: &'static str,
}

/// The figures; cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) reports: Counter,
    pub(super) no_fix: Counter,
    pub(super) late: Counter,
    pub(super) sampled_out: Counter,
    pub(super) events: Counter,
    pub(super) batches: Counter,
    pub(super) batch_seconds: Histogram,
    dead_letters: Family<Label, Counter>,
    pub(super) dead_letters_lost: Counter,
    pub(super) restarts: Counter,
    pub(super) purges: Counter,
    pub(super) shards: Gauge,
    pub(super) lag: Gauge,
    pub(super) oldest_seconds: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reports: Counter::default(),
            no_fix: Counter::default(),
            late: Counter::default(),
            sampled_out: Counter::default(),
            events: Counter::default(),
            batches: Counter::default(),
            // From 1 ms, each twice the one before, to 33 s.
            batch_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            dead_letters: Family::default(),
            dead_letters_lost: Counter::default(),
            restarts: Counter::default(),
            purges: Counter::default(),
            shards: Gauge::default(),
            lag: Gauge::default(),
            oldest_seconds: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Publishes the figures under `gps`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("gps");
        let counters = [
            ("reports", "Reports written", &self.reports),
            ("no_fix", "Reports without a fix", &self.no_fix),
            (
                "late",
                "Reports that came after one of a later time",
                &self.late,
            ),
            (
                "sampled_out",
                "Reports left out by sampling",
                &self.sampled_out,
            ),
            ("events", "Events written into the outbox", &self.events),
            ("batches", "Transactions committed", &self.batches),
            (
                "dead_letters_lost",
                "Dead letters that the stream refused",
                &self.dead_letters_lost,
            ),
            (
                "restarts",
                "Times that a worker began again at its cursor",
                &self.restarts,
            ),
            (
                "purges",
                "Bounded parts of history removed as too old",
                &self.purges,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "batch_seconds",
            "How long a transaction takes, with its commit",
            self.batch_seconds.clone(),
        );
        registry.register(
            "dead_letters",
            "Uplinks with a fault in a position, by reason",
            self.dead_letters.clone(),
        );
        let gauges = [
            ("shards", "Shards that this node works on", &self.shards),
            (
                "lag",
                "Stored uplinks behind the cursor of the slowest shard",
                &self.lag,
            ),
            (
                "oldest_seconds",
                "Age of the oldest uplink that is not read",
                &self.oldest_seconds,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    pub(super) fn dead_letter(&self, reason: &'static str) {
        self.dead_letters.get_or_create(&Label { reason }).inc();
    }
}
