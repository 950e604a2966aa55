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
use crate::telemetry;
use crate::telemetry::otlp::{self, Spans};

/// Where dead letters go; cheap to clone.
#[derive(Clone)]
pub struct DeadLetters {
    publisher: Publisher,
    spans: Spans,
    lost: Counter,
}

impl DeadLetters {
    /// Dead letters into the stream of `publisher`, which leave their spans with `spans`.
    #[must_use]
    pub fn new(publisher: Publisher, spans: Spans) -> Self {
        Self {
            publisher,
            spans,
            lost: Counter::default(),
        }
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "dead_letters_lost",
            "Dead letters that the stream refused, or that had no room",
            self.lost.clone(),
        );
    }

    /// Leaves a dead letter of a device to be kept; none waits for it, so one that has no room is lost, which is counted.
    pub fn leave(&self, device: &DeviceId, message: Message) {
        let Some(permit) = self.publisher.try_permit(message.wire_bytes()) else {
            self.lost.inc();
            return;
        };
        let key = Mapping::device_tokens(device);
        self.publisher.publish(&key, message, None, permit, None);
    }

    /// Keeps a dead letter of a device; whether it is stored.
    pub async fn keep(&self, device: &DeviceId, message: Message) -> bool {
        let permit = self.publisher.permit(message.wire_bytes()).await;
        let receipts = Arc::<Receipts>::default();
        let key = Mapping::device_tokens(device);
        let traceparent = message.headers.get("traceparent").unwrap_or_default();
        let trace = (traceparent.to_owned(), telemetry::now());
        let attributes = ["Jw-Subject", "Jw-Sequence", "Jw-Reason"];
        let [subject, sequence, reason] = attributes.map(|name| {
            let value = message.headers.get(name);
            value.unwrap_or_default().to_owned()
        });
        self.publisher
            .publish(&key, message, None, permit, Some(&receipts));
        std::future::poll_fn(|context| receipts.poll_finished(context, 0)).await;
        let refused = receipts.take_refused();
        let attributes = [
            ("messaging.destination.name", &*subject),
            ("jetway.sequence", &*sequence),
            (otlp::ERROR, &*reason),
        ];
        let (traceparent, start) = trace;
        let end = telemetry::now();
        self.spans
            .record("dead letter", &traceparent, start, end, &attributes);
        for (_, refusal) in &refused {
            self.lost.inc();
            tracing::error!(%device, %refusal, "dead letter lost");
        }
        refused.is_empty()
    }
}
