//! What the event workers of this node did, and how far events are behind.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    reason: &'static str,
}

/// The figures; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    pub(super) inputs: Counter,
    pub(super) events: Counter,
    pub(super) batches: Counter,
    dead_letters: Family<Label, Counter>,
    pub(super) dead_letters_lost: Counter,
    pub(super) replies: Counter,
    pub(super) replies_refused: Counter,
    pub(super) restarts: Counter,
    pub(super) shards: Gauge,
    pub(super) lag: Gauge,
    pub(super) oldest_seconds: Gauge,
}

impl Metrics {
    /// Publishes the figures under `events`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("events");
        let counters = [
            ("inputs", "Uplinks whose events are stored", &self.inputs),
            ("stored", "Application events stored", &self.events),
            ("batches", "Batches of events stored", &self.batches),
            (
                "dead_letters_lost",
                "Dead letters of events that the stream refused",
                &self.dead_letters_lost,
            ),
            ("replies", "Replies to devices stored", &self.replies),
            (
                "replies_refused",
                "Replies to devices that the stream refused",
                &self.replies_refused,
            ),
            (
                "restarts",
                "Times that a worker began again at its cursor",
                &self.restarts,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "dead_letters",
            "Uplinks with a fault, by reason",
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
                "Age of the oldest uplink without its events",
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
