//! One message on its way to one session.

use std::sync::Arc;

use super::{Share, ShareToken};
use crate::mapping::Downlink;
use crate::mqtt::TopicFilter;

/// What a mailbox holds; cheap to clone.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The message; all its receivers share it.
    pub downlink: Arc<Downlink>,
    /// One member's part of a shared subscription; none for what everybody gets.
    pub share: Option<Part>,
}

/// A message in the hands of one member of a shared subscription.
#[derive(Debug, Clone)]
pub struct Part {
    /// The shared subscription.
    pub filter: TopicFilter,
    token: ShareToken,
}

impl Delivery {
    /// A message that everybody gets who subscribed.
    #[must_use]
    pub fn new(downlink: Arc<Downlink>) -> Self {
        Self {
            downlink,
            share: None,
        }
    }

    /// The session is done with it: no other member of the group gets it.
    pub fn done(&self) {
        if let Some(share) = &self.share {
            share.token.ack();
        }
    }
}

impl From<Share> for Delivery {
    fn from(share: Share) -> Self {
        Self {
            downlink: Arc::new(share.downlink),
            share: Some(Part {
                filter: share.filter,
                token: share.token,
            }),
        }
    }
}
