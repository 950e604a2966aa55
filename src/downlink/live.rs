//! The feed of this node: every message of the delivery stream, once and in order, into the mailboxes that want it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Delivery, Metrics, Outcome};
use crate::jetstream::{Fed, Feed, Stored};
use crate::mapping::{Downlink, Mapping};
use crate::registry::Registry;
use crate::router::Router;

/// Hands what is stored to the sessions of this node.
pub struct Live {
    feed: Feed,
    mapping: Arc<Mapping>,
    router: Arc<Router<Delivery>>,
    registry: Arc<Registry<Delivery>>,
    metrics: Metrics,
}

impl Live {
    /// Delivery from `feed` through `router`.
    #[must_use]
    pub fn new(
        feed: Feed,
        mapping: Arc<Mapping>,
        router: Arc<Router<Delivery>>,
        registry: Arc<Registry<Delivery>>,
        metrics: Metrics,
    ) -> Self {
        Self {
            feed,
            mapping,
            router,
            registry,
            metrics,
        }
    }

    /// Delivers until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let fed = tokio::select! {
                () = shutdown.cancelled() => return,
                fed = self.feed.next() => fed,
            };
            match fed {
                Fed::Message(stored) => self.deliver(stored),
                Fed::Reset(position) => {
                    tracing::warn!(position, "the delivery stream began anew");
                    self.router.begin(self.feed.stream(), position);
                    // Every session finds out, and reads back what the new stream has for it.
                    self.registry.overflow();
                }
            }
        }
    }

    fn deliver(&self, stored: Stored) {
        let sequence = stored.sequence;
        let subject = stored.message.subject.clone();
        let bytes = stored.message.wire_bytes();
        let read = || read(&self.mapping, &self.metrics, &stored).map(Delivery::new);
        match self.router.dispatch(sequence, &subject, bytes, read) {
            0 => self.metrics.count(Outcome::Offline),
            taken => self.metrics.count_all(Outcome::Handed, taken),
        }
    }
}

/// What devices get of a stored message; none, and counted, if no PUBLISH can be made of it.
#[must_use]
pub fn read(mapping: &Mapping, metrics: &Metrics, stored: &Stored) -> Option<Arc<Downlink>> {
    mapping
        .downlink(&stored.message)
        .inspect_err(|error| {
            metrics.count(Outcome::Unmapped);
            tracing::warn!(subject = %stored.message.subject, sequence = stored.sequence, %error, "downlink cannot be mapped");
        })
        .ok()
        .map(Arc::new)
}
