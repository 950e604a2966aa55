//! The feed of this node: every message of the delivery stream, once and in order, into the mailboxes that want it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Delivery, Finished, Lifetimes, Lost, Outcome, Retained};
use crate::jetstream::{Fed, Feed, Publisher, Stored};
use crate::mapping::{Downlink, Mapping};
use crate::registry::Registry;
use crate::router::Router;

/// Hands what is stored to the sessions of this node: through `router`, and to the one device that a message is for, in the
/// `registry`, whether it subscribed or not.
pub struct Live {
    /// The delivery stream.
    pub feed: Feed,
    /// Subjects to topics.
    pub mapping: Arc<Mapping>,
    /// Who subscribed.
    pub router: Arc<Router<Delivery>>,
    /// Who is connected.
    pub registry: Arc<Registry<Delivery>>,
    /// What becomes of messages that nobody gets.
    pub finished: Finished,
    /// When the lifetimes of messages end.
    pub lifetimes: Lifetimes,
    /// Where those are kept that subscribers get later.
    pub retained: Retained,
    /// Where the messages of this node go, which may be the same stream.
    pub uplink: Publisher,
}

impl Live {
    /// Delivers until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let fed = tokio::select! {
                () = shutdown.cancelled() => return,
                fed = self.next() => fed,
            };
            match fed {
                Fed::Message(stored) => self.deliver(stored),
                Fed::Reset(position) => {
                    tracing::warn!(position, "the delivery stream began anew");
                    self.uplink.forget_sequence();
                    self.router.begin(self.feed.stream(), position);
                    // Every session finds out, and reads back what the new stream has for it.
                    self.registry.overflow();
                    self.lifetimes.forget();
                }
            }
        }
    }

    /// The next event. A message that is to be retained is so before anybody gets it: whoever subscribes behind it finds it.
    async fn next(&mut self) -> Fed {
        let fed = self.feed.next().await;
        if let Fed::Message(stored) = &fed {
            self.retained.follow(stored).await;
        }
        fed
    }

    fn deliver(&self, stored: Stored) {
        let sequence = stored.sequence;
        let subject = stored.message.subject.clone();
        let bytes = stored.message.wire_bytes();
        if self.lifetimes.is_watched()
            && let Some(expiry) = self.mapping.expiry(&stored.message)
        {
            self.lifetimes.add(expiry.unix_ms, sequence);
        }
        let metrics = self.finished.metrics();
        let read = || read(&self.mapping, &stored).map(Delivery::new);
        match self.router.dispatch(sequence, &subject, bytes, read) {
            0 if self.deliver_unwanted(&stored, bytes) => metrics.count(Outcome::Handed),
            0 => metrics.count(Outcome::Offline),
            taken => metrics.count_all(Outcome::Handed, taken),
        }
    }

    /// A device that is here is to say itself that it did not subscribe: behind all that it was sent before, and not while its
    /// session is being taken up.
    fn deliver_unwanted(&self, stored: &Stored, bytes: usize) -> bool {
        let Some(device) = self.mapping.receiver(&stored.message.subject) else {
            return false;
        };
        let Some(mailbox) = self.registry.find(&Mapping::device_tokens(&device)) else {
            return false;
        };
        match read(&self.mapping, stored) {
            Some(downlink) => mailbox.deliver(Delivery::new(downlink), bytes).is_ok(),
            None => {
                let lost = Lost::at(stored.sequence, Outcome::Unmapped);
                self.finished.lost(&device, lost);
                true
            }
        }
    }
}

/// What devices get of a stored message; none if no PUBLISH can be made of it.
#[must_use]
pub fn read(mapping: &Mapping, stored: &Stored) -> Option<Arc<Downlink>> {
    mapping
        .downlink(&stored.message)
        .inspect_err(|error| {
            tracing::warn!(subject = %stored.message.subject, sequence = stored.sequence, %error, "downlink cannot be mapped");
        })
        .ok()
        .map(Arc::new)
}
