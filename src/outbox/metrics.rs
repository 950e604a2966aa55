//! What the relay of this node did, and how full the outbox is.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::store::{Settled, Stats};

/// From commit to publication, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0];

/// The figures; cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) claims: Counter,
    published: Counter,
    refused: Counter,
    given_up: Counter,
    unanswered: Counter,
    late: Counter,
    pub(super) failures: Counter,
    pub(super) purged: Counter,
    pending: Gauge,
    sending: Gauge,
    dead: Gauge,
    oldest_seconds: Gauge,
    seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            claims: Counter::default(),
            published: Counter::default(),
            refused: Counter::default(),
            given_up: Counter::default(),
            unanswered: Counter::default(),
            late: Counter::default(),
            failures: Counter::default(),
            purged: Counter::default(),
            pending: Gauge::default(),
            sending: Gauge::default(),
            dead: Gauge::default(),
            oldest_seconds: Gauge::default(),
            seconds: Histogram::new(BUCKETS),
        }
    }
}

impl Metrics {
    /// Publishes the figures under `outbox`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("outbox");
        let counters = [
            ("claims", "Claims with rows", &self.claims),
            ("published", "Rows published", &self.published),
            ("refused", "Tries that the broker refused", &self.refused),
            ("given_up", "Rows that are dead now", &self.given_up),
            (
                "unanswered",
                "Tries that said nothing about the row",
                &self.unanswered,
            ),
            (
                "late",
                "Rows that were taken over before it was told what became of them",
                &self.late,
            ),
            (
                "failures",
                "Times that the database failed the relay",
                &self.failures,
            ),
            ("purged", "Published rows removed", &self.purged),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let gauges = [
            ("pending", "Rows that are not published", &self.pending),
            (
                "sending",
                "Rows of them that a relay has in hand",
                &self.sending,
            ),
            ("dead", "Rows that have used up their attempts", &self.dead),
            (
                "pending_oldest_seconds",
                "Age of the oldest row that is not published",
                &self.oldest_seconds,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "publish_seconds",
            "From when a row was written until it was published",
            self.seconds.clone(),
        );
    }

    pub(super) fn count(&self, settled: &Settled) {
        self.published.inc_by(settled.published);
        self.refused.inc_by(settled.refused + settled.dead);
        self.given_up.inc_by(settled.dead);
        self.unanswered.inc_by(settled.unanswered);
        self.late.inc_by(settled.late);
    }

    pub(super) fn published(&self, after: Duration) {
        self.seconds.observe(after.as_secs_f64());
    }

    pub(super) fn show(&self, stats: &Stats) {
        let gauge = |gauge: &Gauge, number: u64| {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        };
        gauge(&self.pending, stats.pending + stats.sending);
        gauge(&self.sending, stats.sending);
        gauge(&self.dead, stats.dead);
        gauge(
            &self.oldest_seconds,
            stats.oldest_pending_ms.unwrap_or(0) / 1_000,
        );
    }
}
