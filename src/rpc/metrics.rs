//! Requests to devices, counted by how they ended.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Refusal;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: &'static str,
}

/// Counts requests by outcome; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Family<Label, Counter>);

impl Metrics {
    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "rpc_requests",
            "Requests to devices by how they ended",
            self.0.clone(),
        );
    }

    /// Counts one that the device answered, or did not.
    pub(super) fn count(&self, refusal: Option<Refusal>) {
        let outcome = refusal.map_or("answered", Refusal::as_str);
        self.0.get_or_create(&Label { outcome }).inc();
    }
}
