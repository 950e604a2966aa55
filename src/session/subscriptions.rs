//! The topic filters of one session.

use crate::mqtt::{QoS, TopicFilter};

/// A short list: devices have a handful of filters, and the limit is in config.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<(TopicFilter, QoS)>);

impl Subscriptions {
    /// Adds a filter, or replaces the one with the same text.
    pub(super) fn insert(&mut self, filter: TopicFilter, qos: QoS) {
        match self.0.iter_mut().find(|(known, _)| *known == filter) {
            Some(known) => known.1 = qos, // [MQTT-3.8.4-3]
            None => self.0.push((filter, qos)),
        }
    }

    /// Whether the filter was there.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != filter);
        before != self.0.len()
    }

    pub(super) fn has_room_for(&self, filter: &TopicFilter, limit: usize) -> bool {
        self.0.len() < limit || self.0.iter().any(|(known, _)| known == filter)
    }

    /// The highest QoS among the filters that match: overlapping filters are one delivery.
    pub(super) fn qos_of(&self, topic: &str) -> Option<QoS> {
        self.0
            .iter()
            .filter(|(filter, _)| filter.matches(topic))
            .map(|(_, qos)| *qos)
            .max()
    }
}
