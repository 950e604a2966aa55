//! Downlinks counted by what became of them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What became of a downlink; the label of `jetway_downlink_messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Given to the device's connection.
    Handed,
    /// Nobody who is connected here wants it.
    Offline,
    /// More retained messages than a session may have.
    TooMany,
    /// No PUBLISH can be made of it.
    Unmapped,
    /// Written to the device.
    Sent,
    /// No filter of the device matches its topic.
    NotSubscribed,
    /// A rule denies the device its topic.
    Denied,
    /// Larger than the device takes.
    TooLarge,
    /// Its lifetime was over.
    Expired,
    /// Older than what fits beside it into the bytes that may wait for a device.
    Overflow,
    /// The device refused it.
    Refused,
    /// With QoS 0, and the device was away.
    Missed,
    /// The connection ended before the device had it, or before the device said so.
    Unacknowledged,
}

impl Outcome {
    /// The word in metrics and dead letters; the set is fixed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handed => "handed",
            Self::Offline => "offline",
            Self::TooMany => "too_many",
            Self::Unmapped => "unmapped",
            Self::Sent => "sent",
            Self::NotSubscribed => "not_subscribed",
            Self::Denied => "denied",
            Self::TooLarge => "too_large",
            Self::Expired => "expired",
            Self::Overflow => "overflow",
            Self::Refused => "refused",
            Self::Missed => "missed",
            Self::Unacknowledged => "unacknowledged",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: &'static str,
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
        self.count_all(outcome, 1);
    }

    /// Counts several.
    pub fn count_all(&self, outcome: Outcome, count: usize) {
        let outcome = outcome.as_str();
        self.0
            .get_or_create(&Label { outcome })
            .inc_by(count as u64);
    }
}
