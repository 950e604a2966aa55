//! Whose connection a request goes to, and which node has it.
//!
//! It is the device's own, by the registry of this node or by the device's session document. A device without one is asked through the
//! gateway device that it is bound to now, as its downlinks go that way: whether or not the gateway device said that it is online.
//!
//! Invariant: another node is told whom to ask, and never looks further: a request is passed on once.

use std::sync::Arc;
use std::time::Duration;

use super::Refusal;
use super::desk::{Desk, Refused};
use crate::device::DeviceId;
use crate::downlink::Delivery;
use crate::mapping::Mapping;
use crate::registry::Mailbox;

/// Who a request came from.
pub(super) enum Asked {
    /// A service.
    ByService,
    /// Another node, which found who to ask (`P.D`); none: the device itself.
    ByNode { key: Option<Box<str>> },
}

/// The connection to ask.
pub(super) enum Holder {
    /// It is on this node.
    Here {
        key: Box<str>,
        mailbox: Arc<Mailbox<Delivery>>,
    },
    /// It is on another one.
    There { key: Box<str>, node: Box<str> },
}

impl Desk {
    /// The connection to ask for a device; none if it has none, and is behind none.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] when the session document is not known, or the catalogue does not say in time whom it is bound to.
    pub(super) async fn holder(
        &self,
        device: &DeviceId,
        asked: Asked,
        limit: Duration,
    ) -> Result<Option<Holder>, Refused> {
        let own = || Mapping::device_tokens(device).into_boxed_str();
        if let Asked::ByNode { key } = asked {
            return Ok(self.here(key.unwrap_or_else(own)).ok());
        }
        let holder = self.find(own()).await?;
        let Some(topology) = self.topology.as_ref().filter(|_| holder.is_none()) else {
            return Ok(holder);
        };
        match topology.gateway(device, limit).await {
            Ok(Some(gateway)) => self.find(Mapping::device_tokens(&gateway).into()).await,
            Ok(None) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn find(&self, key: Box<str>) -> Result<Option<Holder>, Refused> {
        let key = match self.here(key) {
            Ok(here) => return Ok(Some(here)),
            Err(key) => key,
        };
        let standing = self.ownership.standing(&key).await;
        let standing = standing.map_err(|error| unavailable(&error))?;
        let node = standing.and_then(|standing| standing.node);
        let node = node.filter(|node| *node != self.node);
        Ok(node.map(|node| Holder::There { key, node }))
    }

    /// Gives the key back if nobody is connected here under it.
    fn here(&self, key: Box<str>) -> Result<Holder, Box<str>> {
        match self.registry.find(&key) {
            Some(mailbox) => Ok(Holder::Here { key, mailbox }),
            None => Err(key),
        }
    }
}

fn unavailable(error: &impl ToString) -> Refused {
    (Refusal::Unavailable, Some(error.to_string()))
}
