//! The topic filters of one session: what it asks for, what it gets, and what each message is delivered with.

use std::num::NonZeroU32;

use super::Problem;
use crate::mqtt::{QoS, ReasonCode, Subscription, TopicFilter};

/// A short list: devices have a handful of filters, and the limit is in config.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Granted>);

#[derive(Debug)]
struct Granted {
    filter: TopicFilter,
    qos: QoS,
    identifier: Option<NonZeroU32>,
}

/// How one message is delivered: overlapping filters are one delivery.
#[derive(Debug)]
pub(super) struct Delivery {
    /// The highest QoS of all filters that match. // [MQTT-3.3.4-2]
    pub(super) qos: QoS,
    /// The identifier of each that has one, so that one may be there twice. // [MQTT-3.3.4-3], [MQTT-3.3.4-4]
    pub(super) identifiers: Vec<NonZeroU32>,
}

impl Subscriptions {
    /// Adds what is allowed, or replaces the subscription with the same filter, its identifier with it: the QoS that is
    /// granted.
    ///
    /// # Errors
    /// Why this one is refused.
    pub(super) fn subscribe(
        &mut self,
        asked: Subscription,
        identifier: Option<NonZeroU32>,
        limit: usize,
        allowed: impl Fn(&str) -> Result<(), Problem>,
    ) -> Result<QoS, Problem> {
        if asked.filter.is_shared() {
            return Err(Problem {
                reason: ReasonCode::SharedSubscriptionsNotSupported,
                words: "shared subscriptions are not available",
            });
        }
        allowed(asked.filter.as_str())?;
        let granted = Granted {
            filter: asked.filter,
            qos: asked.qos.min(QoS::AtLeastOnce),
            identifier,
        };
        let qos = granted.qos;
        let has_room = self.0.len() < limit;
        let known = self
            .0
            .iter_mut()
            .find(|known| known.filter == granted.filter);
        match known {
            Some(known) => *known = granted, // [MQTT-3.8.4-3]
            None if has_room => self.0.push(granted),
            None => {
                return Err(Problem {
                    reason: ReasonCode::QuotaExceeded,
                    words: "the session has as many topic filters as it may",
                });
            }
        }
        Ok(qos)
    }

    /// Whether the filter was there.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.filter != *filter);
        before != self.0.len()
    }

    /// How a message on this topic is delivered; none: no filter matches.
    pub(super) fn delivery(&self, topic: &str) -> Option<Delivery> {
        let mut delivery: Option<Delivery> = None;
        for known in self.0.iter().filter(|known| known.filter.matches(topic)) {
            let delivery = delivery.get_or_insert(Delivery {
                qos: known.qos,
                identifiers: Vec::new(),
            });
            delivery.qos = delivery.qos.max(known.qos);
            delivery.identifiers.extend(known.identifier);
        }
        delivery
    }
}
