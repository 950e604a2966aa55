//! The one way of a PUBLISH into its stream: acl → mapping → publisher.

use std::sync::Arc;

use super::Error;
use crate::auth::acl::{self, Action};
use crate::device::{Device, DeviceId};
use crate::jetstream::{Permit, Publisher, Receipts};
use crate::mapping::{Mapping, Receipt};
use crate::mqtt::Publish;
use crate::telemetry;

/// Who publishes, and over which connection.
#[derive(Debug)]
pub struct Sender {
    /// The authenticated device.
    pub device: Device,
    /// Decides the publisher shard, so that the device's messages stay in order.
    pub tokens: Box<str>,
    /// The connection id; message ids are made from it.
    pub connection_id: Box<str>,
    /// Continues into every message's trace id.
    pub trace: u64,
    /// What became of the messages, in order.
    pub receipts: Arc<Receipts>,
    /// Messages accepted so far on this connection.
    pub accepted: u64,
}

/// The uplink of one node; cheap to clone.
#[derive(Clone)]
pub struct Uplink {
    mapping: Arc<Mapping>,
    publisher: Publisher,
}

impl Uplink {
    /// An uplink into the stream of `publisher`.
    #[must_use]
    pub fn new(mapping: Arc<Mapping>, publisher: Publisher) -> Self {
        Self { mapping, publisher }
    }

    /// Room for a payload, if there is some now.
    #[must_use]
    pub fn try_permit(&self, payload_bytes: usize) -> Option<Permit> {
        self.publisher.try_permit(payload_bytes)
    }

    /// Room for a payload, once there is some.
    pub async fn permit(self, payload_bytes: usize) -> Permit {
        self.publisher.permit(payload_bytes).await
    }

    /// Whether the device may publish to a topic or subscribe to a filter.
    ///
    /// # Errors
    /// [`Error::NotAuthorized`].
    pub fn authorize(&self, device: &Device, action: Action, topic: &str) -> Result<(), Error> {
        let address = self.mapping.address(topic);
        acl::authorize(device, action, address.as_ref()).map_err(Error::NotAuthorized)
    }

    /// Hands a message to the stream; `sender.receipts` tells when it is stored.
    ///
    /// # Errors
    /// The message is not the device's to send, or no rule gives it a subject; nothing was published.
    pub fn accept(
        &self,
        sender: &mut Sender,
        publish: &Publish,
        permit: Permit,
    ) -> Result<(), Error> {
        let address = self.mapping.address(&publish.topic);
        acl::authorize(&sender.device, Action::Publish, address.as_ref())
            .map_err(Error::NotAuthorized)?;
        let address = address.ok_or(Error::NotAuthorized(acl::Denied::Unmapped))?;
        let id = format!("{}.{}", sender.connection_id, sender.accepted + 1);
        let receipt = Receipt {
            id: &id,
            received_ms: telemetry::now_unix_ms(),
            traceparent: &traceparent(sender.trace, sender.accepted + 1),
        };
        let identity = identity(&sender.device, address.product, address.name)?;
        let uplink = self.mapping.uplink(identity, &address, publish, &receipt)?;
        sender.accepted += 1;
        self.publisher.publish(
            &sender.tokens,
            uplink.message,
            uplink.live,
            permit,
            Some(&sender.receipts),
        );
        Ok(())
    }
}

/// The authorised identity that the address names: the device's own or that of a bound sub-device.
fn identity<'a>(device: &'a Device, product: &str, name: &str) -> Result<&'a DeviceId, Error> {
    std::iter::once(&device.id)
        .chain(device.sub_devices.iter())
        .find(|id| id.product() == product && id.name() == name)
        .ok_or(Error::NotAuthorized(acl::Denied::OtherDevice))
}

/// A W3C trace context that is unique to the message and needs no random number each time.
fn traceparent(connection: u64, message: u64) -> String {
    let span = (connection ^ message).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    format!("00-{connection:016x}{message:016x}-{span:016x}-01")
}
