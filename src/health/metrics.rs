//! The figures of streams, durables, dead letters and alarms. Labels are names of the configuration and words of ours (G38).

use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::measured::{Dead, Durable, Measured, Stream};
use crate::jetstream::Link;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DurableLabel {
    pub(super) stream: String,
    pub(super) durable: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeadLabel {
    origin: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NotificationLabel {
    pub(super) receiver: &'static str,
    pub(super) outcome: &'static str,
}

type HistogramFamily = Family<DurableLabel, Histogram, fn() -> Histogram>;

/// All figures of this module; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    lag: Family<DurableLabel, Gauge>,
    oldest: Family<DurableLabel, Gauge>,
    ack_pending: Family<DurableLabel, Gauge>,
    waiting: Family<DurableLabel, Gauge>,
    pub(super) handled: Family<DurableLabel, Counter>,
    pub(super) failed: Family<DurableLabel, Counter>,
    pub(super) redelivered: Family<DurableLabel, Counter>,
    pub(super) handling: HistogramFamily,
    stream_messages: Family<StreamLabel, Gauge>,
    stream_oldest: Family<StreamLabel, Gauge>,
    stream_stored: Family<StreamLabel, Counter>,
    dead_letters: Family<DeadLabel, Gauge>,
    pub(super) nodes_lost: Counter,
    pub(super) ready: Gauge,
    pub(super) alarms: Gauge,
    pub(super) notifications: Family<NotificationLabel, Counter>,
}

/// From a millisecond to half a minute, twice as long each.
fn handling_times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            lag: Family::default(),
            oldest: Family::default(),
            ack_pending: Family::default(),
            waiting: Family::default(),
            handled: Family::default(),
            failed: Family::default(),
            redelivered: Family::default(),
            handling: HistogramFamily::new_with_constructor(handling_times),
            stream_messages: Family::default(),
            stream_oldest: Family::default(),
            stream_stored: Family::default(),
            dead_letters: Family::default(),
            nodes_lost: Counter::default(),
            ready: Gauge::default(),
            alarms: Gauge::default(),
            notifications: Family::default(),
        }
    }
}

impl Metrics {
    /// Publishes the figures.
    pub(super) fn register(&self, link: &Link, registry: &mut Registry) {
        registry.register_collector(Box::new(Connected(link.clone())));
        registry.register(
            "ready",
            "1 while nothing keeps this node from storing",
            self.ready.clone(),
        );
        registry.register(
            "nodes_lost",
            "Nodes whose lease ran out",
            self.nodes_lost.clone(),
        );
        registry.register(
            "alarms",
            "Alarms that this node sees firing",
            self.alarms.clone(),
        );
        registry.register(
            "notifications",
            "Notifications by receiver and outcome",
            self.notifications.clone(),
        );
        registry.register(
            "dlq_messages",
            "Dead letters that the stream holds, by what gave them up and why",
            self.dead_letters.clone(),
        );
        self.register_durables(registry.sub_registry_with_prefix("durable"));
        let registry = registry.sub_registry_with_prefix("stream");
        let (messages, oldest) = (self.stream_messages.clone(), self.stream_oldest.clone());
        registry.register("messages", "Messages that the stream holds", messages);
        registry.register(
            "oldest_seconds",
            "Age of the stream's oldest message",
            oldest,
        );
        registry.register(
            "stored",
            "Messages that the stream has ever stored",
            self.stream_stored.clone(),
        );
    }

    fn register_durables(&self, registry: &mut Registry) {
        let (oldest, redelivered) = (self.oldest.clone(), self.redelivered.clone());
        registry.register("lag", "Messages not delivered yet", self.lag.clone());
        registry.register(
            "oldest_seconds",
            "Age of the oldest message that is not acknowledged",
            oldest,
        );
        registry.register(
            "ack_pending",
            "Messages delivered and not acknowledged",
            self.ack_pending.clone(),
        );
        registry.register(
            "pulls_waiting",
            "Pulls that wait for messages",
            self.waiting.clone(),
        );
        registry.register(
            "redelivered",
            "Deliveries beyond each message's first",
            redelivered,
        );
        registry.register(
            "failed",
            "Tries that ended without acknowledgement",
            self.failed.clone(),
        );
        registry.register("handled", "Messages acknowledged", self.handled.clone());
        registry.register(
            "handling_seconds",
            "From the last delivery to the acknowledgement",
            self.handling.clone(),
        );
    }

    /// Shows what a round found.
    pub(super) fn show(&self, measured: &Measured) {
        measured
            .durables
            .iter()
            .for_each(|durable| self.show_durable(durable));
        measured
            .streams
            .iter()
            .for_each(|stream| self.show_stream(stream));
        for dead in &measured.dead_letters {
            self.show_dead(dead);
        }
    }

    fn show_durable(&self, durable: &Durable) {
        let label = DurableLabel {
            stream: durable.stream.clone(),
            durable: durable.name.clone(),
        };
        let state = durable.state.clone().unwrap_or_default();
        for (family, value) in [
            (&self.lag, state.pending),
            (&self.oldest, durable.oldest_age_ms / 1_000),
            (&self.ack_pending, state.ack_pending),
            (&self.waiting, state.waiting),
        ] {
            family.get_or_create(&label).set(gauge(value));
        }
        // They are there before the first message is finished, so that the first failure is an increase.
        for family in [&self.handled, &self.failed, &self.redelivered] {
            drop(family.get_or_create(&label));
        }
        drop(self.handling.get_or_create(&label));
    }

    fn show_stream(&self, stream: &Stream) {
        let label = StreamLabel {
            stream: stream.name.clone(),
        };
        let state = stream.state.clone().unwrap_or_default();
        for (family, value) in [
            (&self.stream_messages, state.messages),
            (&self.stream_oldest, stream.oldest_age_ms / 1_000),
        ] {
            family.get_or_create(&label).set(gauge(value));
        }
        // It counts for itself, across restarts of ours: its last sequence.
        let stored = self.stream_stored.get_or_create(&label);
        stored.inner().store(state.last_sequence, Ordering::Relaxed);
    }

    fn show_dead(&self, dead: &Dead) {
        let label = DeadLabel {
            origin: dead.origin.clone(),
            reason: dead.reason.clone(),
        };
        self.dead_letters
            .get_or_create(&label)
            .set(gauge(dead.count));
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Asked when the figures are: a gauge that a task sets would say nothing of a task that waits for NATS.
struct Connected(Link);

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connected")
    }
}

impl Collector for Connected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let connected = ConstGauge::new(i64::from(self.0.is_connected()));
        let help = "1 while the NATS connection stands";
        let kind = connected.metric_type();
        connected.encode(encoder.encode_descriptor("nats_connected", help, None, kind)?)
    }
}
