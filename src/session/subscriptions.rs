//! The topic filters of one session: what it asks for, what it gets, and what each message is delivered with.
//!
//! A subscription selects only what came after it began: its `since` is a place in the delivery stream. It is kept when the
//! same filter is subscribed to again, so that nothing is missed in between.

use std::num::NonZeroU32;

use bytestring::ByteString;

use super::record::{Source, StoredSubscription};
use super::{Delivered, Problem};
use crate::mqtt::{QoS, ReasonCode, Subscription, TopicFilter};

/// A short list: devices have a handful of filters, and the limit is in config.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Granted>);

#[derive(Debug, PartialEq, Eq)]
struct Granted {
    filter: TopicFilter,
    qos: QoS,
    no_local: bool,
    retain_as_published: bool,
    identifier: Option<NonZeroU32>,
    since: u64,
}

/// What became of a filter of a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subscribed {
    pub(super) qos: QoS,
    /// Whether the filter was not there before.
    pub(super) is_new: bool,
    /// Whether the stored record is not right any more.
    pub(super) changed: bool,
}

/// How one message is delivered: overlapping filters are one delivery.
#[derive(Debug)]
pub(super) struct Delivery {
    /// The highest QoS of all filters that match. // [MQTT-3.3.4-2]
    pub(super) qos: QoS,
    /// Whether one of them wants the publisher's retain flag.
    pub(super) retain_as_published: bool,
    /// The identifier of each that has one, so that one may be there twice. // [MQTT-3.3.4-3], [MQTT-3.3.4-4]
    pub(super) identifiers: Vec<NonZeroU32>,
}

impl Subscriptions {
    /// Our own records hold valid filters and QoS only; whatever else is found there is left out.
    pub(super) fn restore(records: Vec<StoredSubscription>) -> Self {
        let granted = |record: StoredSubscription| {
            Some(Granted {
                filter: TopicFilter::try_from(ByteString::from(record.filter)).ok()?,
                qos: QoS::try_from(record.qos).ok()?,
                no_local: record.no_local,
                retain_as_published: record.retain_as_published,
                identifier: record.identifier.and_then(NonZeroU32::new),
                since: record.since,
            })
        };
        Self(records.into_iter().filter_map(granted).collect())
    }

    pub(super) fn records(&self) -> Vec<StoredSubscription> {
        let record = |granted: &Granted| StoredSubscription {
            filter: granted.filter.as_str().to_owned(),
            qos: granted.qos as u8,
            no_local: granted.no_local,
            retain_as_published: granted.retain_as_published,
            identifier: granted.identifier.map(NonZeroU32::get),
            since: granted.since,
        };
        self.0.iter().map(record).collect()
    }

    pub(super) fn filters(&self) -> impl Iterator<Item = &TopicFilter> {
        self.0.iter().map(|granted| &granted.filter)
    }

    /// Nothing up to here is selected by any; none: there are none.
    pub(super) fn since(&self) -> Option<u64> {
        self.0.iter().map(|granted| granted.since).min()
    }

    /// They select everything from the beginning of the stream, which is another one.
    pub(super) fn begin(&mut self) {
        for granted in &mut self.0 {
            granted.since = 0;
        }
    }

    /// Adds what is allowed, or replaces the subscription with the same filter, its options and identifier with it.
    ///
    /// # Errors
    /// Why this one is refused.
    pub(super) fn subscribe(
        &mut self,
        asked: &Subscription,
        identifier: Option<NonZeroU32>,
        limit: usize,
        attach: impl FnOnce(&TopicFilter) -> Result<u64, Problem>,
    ) -> Result<Subscribed, Problem> {
        let has_room = self.0.len() < limit;
        let mut known = self.0.iter_mut();
        let known = known.find(|known| known.filter == asked.filter);
        if known.is_none() && !has_room {
            return Err(Problem {
                reason: ReasonCode::QuotaExceeded,
                words: "the session has as many topic filters as it may",
            });
        }
        let position = attach(&asked.filter)?;
        let granted = Granted {
            filter: asked.filter.clone(),
            qos: asked.qos,
            no_local: asked.no_local,
            retain_as_published: asked.retain_as_published,
            identifier,
            since: known.as_ref().map_or(position, |known| known.since),
        };
        let is_new = known.is_none();
        let changed = known.as_ref().is_none_or(|known| **known != granted);
        match known {
            Some(known) => *known = granted, // [MQTT-3.8.4-3]
            None => self.0.push(granted),
        }
        Ok(Subscribed {
            qos: asked.qos,
            is_new,
            changed,
        })
    }

    /// Whether the filter was there.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.filter != *filter);
        before != self.0.len()
    }

    /// How a message on this topic is delivered.
    ///
    /// # Errors
    /// It is not: no filter matches, or none of those that do wants it.
    pub(super) fn delivery(
        &self,
        topic: &str,
        source: &Source,
        own: bool,
    ) -> Result<Delivery, Delivered> {
        let selects = |known: &&Granted| match source {
            Source::Shared { filter, .. } => known.filter.as_str() == &**filter,
            _ => !known.filter.is_shared() && known.filter.matches(topic),
        };
        let wants = |known: &&Granted| {
            let since = match source {
                Source::Stream(sequence) | Source::Backlog(sequence) => *sequence > known.since,
                Source::Shared { .. } | Source::Retained(_) | Source::Gone => true,
            };
            since && !(own && known.no_local) // [MQTT-3.8.3-3]
        };
        let mut selecting = self.0.iter().filter(selects).peekable();
        if selecting.peek().is_none() {
            return Err(Delivered::NotSubscribed);
        }
        let mut delivery: Option<Delivery> = None;
        for known in selecting.filter(wants) {
            let delivery = delivery.get_or_insert_with(|| known.delivery());
            delivery.qos = delivery.qos.max(known.qos);
            delivery.retain_as_published |= known.retain_as_published;
            delivery.identifiers.extend(known.identifier);
        }
        delivery.ok_or(Delivered::Skipped)
    }

    /// The identifiers of the subscriptions that select a message that is in no stream; none if no filter matches.
    pub(super) fn selecting(&self, topic: &str) -> Option<Vec<NonZeroU32>> {
        let selects = |known: &&Granted| !known.filter.is_shared() && known.filter.matches(topic);
        let mut selecting = self.0.iter().filter(selects).peekable();
        selecting.peek()?;
        Some(selecting.filter_map(|known| known.identifier).collect())
    }

    /// How a retained message is delivered to one subscription, if it is still there.
    pub(super) fn delivery_of(&self, filter: &TopicFilter) -> Option<Delivery> {
        let known = self.0.iter().find(|known| known.filter == *filter)?;
        let mut delivery = known.delivery();
        delivery.identifiers.extend(known.identifier);
        Some(delivery)
    }
}

impl Granted {
    /// With no identifier yet.
    fn delivery(&self) -> Delivery {
        Delivery {
            qos: self.qos,
            retain_as_published: self.retain_as_published,
            identifiers: Vec::new(),
        }
    }
}
