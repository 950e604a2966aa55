//! A topic filter of a connection and what stands behind it: the acl, the router, the group of a shared subscription.

use std::sync::Arc;

use bytestring::ByteString;

use super::Shared;
use super::driver::Driver;
use crate::auth::acl::Action;
use crate::device::{Device, DeviceId};
use crate::downlink::{Delivery, Leave, SharedSubscription};
use crate::mqtt::{ReasonCode, TopicFilter};
use crate::registry::Mailbox;
use crate::session::{Problem, Record};

/// Attaches and detaches the filters of one connection.
pub(super) struct Attachment {
    shared: Arc<Shared>,
    device: Device,
    mailbox: Arc<Mailbox<Delivery>>,
    /// Whether the session outlives the connection.
    outlives: bool,
}

impl Attachment {
    pub(super) fn of(driver: &Driver) -> Self {
        Self {
            shared: Arc::clone(&driver.shared),
            device: driver.sender.device.clone(),
            mailbox: Arc::clone(&driver.mailbox),
            outlives: driver.session.session_expiry_s() > 0,
        }
    }

    /// Whether the device may have what the filter selects.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn authorize(&self, filter: &TopicFilter) -> Result<(), Problem> {
        let uplink = &self.shared.uplink;
        let authorized = uplink.authorize(&self.device, Action::Subscribe, filter.topics());
        authorized.map_err(|error| error.problem())
    }

    /// Lets the connection have what the filter selects; gives the stream sequence behind which that begins.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn attach(&self, filter: &TopicFilter) -> Result<u64, Problem> {
        let topics = filter.topics();
        self.authorize(filter)?;
        let subjects = self.shared.mapping.subscription(topics).ok_or(Problem {
            reason: ReasonCode::TopicFilterInvalid,
            words: "nothing is delivered under this filter",
        })?;
        // What this node has seen stored was published before, although the feed may not have brought it yet.
        let stored = self.shared.uplink.stored_sequence();
        match filter.share_name() {
            Some(_) => {
                let position = self.shared.router.position().max(stored);
                let subscription = SharedSubscription {
                    filter: filter.clone(),
                    subjects,
                    position,
                };
                let shares = &self.shared.shares;
                shares.join(subscription, &self.mailbox, self.outlives);
                Ok(position)
            }
            None => Ok(self
                .shared
                .router
                .attach(&subjects, &self.mailbox)
                .max(stored)),
        }
    }

    /// The session does not want it any more.
    pub(super) fn detach(&self, filter: &TopicFilter) {
        self.remove(filter, Leave::ForGood);
    }

    /// The connection is over, and the session or not. Gives the position behind which nothing came.
    pub(super) fn leave<'a>(
        &self,
        filters: impl Iterator<Item = &'a TopicFilter>,
        leave: Leave,
    ) -> u64 {
        let last = filters.map(|filter| self.remove(filter, leave)).min();
        last.unwrap_or_else(|| self.shared.router.position())
    }

    fn remove(&self, filter: &TopicFilter, leave: Leave) -> u64 {
        if filter.share_name().is_some() {
            self.shared.shares.leave(filter, &self.mailbox, leave);
            return self.shared.router.position();
        }
        let subjects = self.shared.mapping.subscription(filter.topics());
        self.shared
            .router
            .detach(&subjects.unwrap_or_default(), &self.mailbox)
    }
}

/// A session of a device is over that had no connection: the shares that were kept for it are kept no more.
pub(super) fn forget(shared: &Shared, device: &DeviceId, session: &Record) {
    for subscription in &session.subscriptions {
        let filter = TopicFilter::try_from(ByteString::from(&*subscription.filter));
        if let Ok(filter) = filter
            && filter.is_shared()
            && let Some(subjects) = shared.mapping.subscription(filter.topics())
        {
            let position = shared.router.position();
            let subscription = SharedSubscription {
                filter,
                subjects,
                position,
            };
            shared.shares.forget(subscription, device);
        }
    }
}
