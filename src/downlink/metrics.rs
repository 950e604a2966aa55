//! Downlinks counted by what became of them.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What became of a downlink; the label of `jetway_downlink_messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(missing_docs, reason = "the names are the label values")]
pub enum Outcome {
    Handed,
    Offline,
    MailboxFull,
    Unmapped,
    Sent,
    NotSubscribed,
    TooLarge,
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: Outcome,
}

/// Counts downlinks by outcome; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Family<Label, Counter>);

impl Metrics {
    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "downlink_messages",
            "Downlinks by what became of them",
            self.0.clone(),
        );
    }

    /// Counts one.
    pub fn count(&self, outcome: Outcome) {
        self.0.get_or_create(&Label { outcome }).inc();
    }
}
