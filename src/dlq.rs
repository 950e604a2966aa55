//! Dead letters: what could not be delivered, kept in stream `DLQ` with its original bytes and the reason.
//!
//! Subject `dlq.downlink.<productID>.<deviceName>`. A dead letter is published in the background and counted; while NATS takes
//! nothing for long it is lost, which is counted too.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::device::DeviceId;
use crate::jetstream::Publisher;
use crate::mapping::Mapping;
use crate::mqtt::Publish;
use crate::telemetry;

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
            "Dead letters that had no room",
            self.lost.clone(),
        );
    }

    /// Keeps a downlink that its device will not get.
    pub fn downlink(&self, device: &DeviceId, publish: &Publish, reason: &'static str) {
        let now = telemetry::now_unix_ms();
        let message = Mapping::dead_downlink(device, publish, reason, now);
        let Some(permit) = self.publisher.try_permit(message.wire_bytes()) else {
            self.lost.inc();
            tracing::error!(%device, reason, "dead letter lost");
            return;
        };
        let key = Mapping::device_tokens(device);
        self.publisher.publish(&key, message, None, permit, None);
    }
}
