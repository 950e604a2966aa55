//! Dead letters of the gateway itself: what could not be delivered or handled here.
//!
//! Subject `dlq.<origin>.<productID>.<deviceName>`. Whoever gives a message up waits until its dead letter is stored; one that the
//! stream refuses is lost, which is counted.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::device::DeviceId;
use crate::jetstream::{Publisher, Receipts};
use crate::mapping::Mapping;
use crate::message::Message;

/// Where dead letters go; cheap to clone.
#[derive(Clone)]
pub struct DeadLetters {
    publisher: Publisher,
    lost: Counter,
}

impl DeadLetters {
    /// Dead letters into the stream of `publisher`.
    #[must_use]
    pub fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            lost: Counter::default(),
        }
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "dead_letters_lost",
            "Dead letters that the stream refused",
            self.lost.clone(),
        );
    }

    /// Keeps a dead letter of a device; whether it is stored.
    pub async fn keep(&self, device: &DeviceId, message: Message) -> bool {
        let permit = self.publisher.permit(message.wire_bytes()).await;
        let receipts = Arc::<Receipts>::default();
        let key = Mapping::device_tokens(device);
        self.publisher
            .publish(&key, message, None, permit, Some(&receipts));
        std::future::poll_fn(|context| receipts.poll_finished(context, 0)).await;
        let refused = receipts.take_refused();
        for (_, refusal) in &refused {
            self.lost.inc();
            tracing::error!(%device, %refusal, "dead letter lost");
        }
        refused.is_empty()
    }
}
