//! Deliveries counted by what became of them, and how long handlers take.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What became of a delivery; the label of `consumer_messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its handler is done, and what it wrote is committed.
    Handled,
    /// It was handled before.
    Duplicate,
    /// Its handler failed; it comes again.
    Failed,
    /// It is given up: poison, or its last try failed. The server's advisory makes it a dead letter.
    Dead,
    /// It was given back because the service stops; another replica gets it.
    Returned,
}

impl Outcome {
    /// The word in metrics; the set is fixed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handled => "handled",
            Self::Duplicate => "duplicate",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Returned => "returned",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: &'static str,
}

/// The figures of one consumer; cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    messages: Family<Label, Counter>,
    pub(super) handling_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            messages: Family::default(),
            // From 1 ms, each twice the one before, to 33 s.
            handling_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        }
    }
}

impl Metrics {
    /// Publishes the figures; a service with several consumers gives each a registry with a label of its own.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "consumer_messages",
            "Deliveries by what became of them",
            self.messages.clone(),
        );
        registry.register(
            "consumer_handling_seconds",
            "How long handlers take, with their commit",
            self.handling_seconds.clone(),
        );
    }

    /// How many deliveries had this outcome since the start.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.of(outcome).get()
    }

    pub(super) fn add(&self, outcome: Outcome) {
        self.of(outcome).inc();
    }

    fn of(&self, outcome: Outcome) -> Counter {
        let outcome = outcome.as_str();
        self.messages.get_or_create_owned(&Label { outcome })
    }
}
