//! Both streams' events of one change, under one event id.

use std::sync::Arc;

use super::event;
use crate::device::Connection;
use crate::jetstream::{Permit, Publisher};
use crate::mapping::{Mapping, Presence};
use crate::message::{Headers, Message};
use crate::session::CloseReason;

/// Publishes status events; cheap to clone.
#[derive(Clone)]
pub struct Status {
    device: Publisher,
    application: Publisher,
    node: Arc<str>,
    protocol: Arc<str>,
}

/// Room for one event in both streams.
pub struct Slot {
    device: Permit,
    application: Permit,
}

/// What a status event takes at most; names are bounded, so this is generous.
const EVENT_BYTES_MAX: usize = 2_048;

impl Status {
    /// Status events of `node`, into the streams of the two publishers.
    #[must_use]
    pub fn new(device: Publisher, application: Publisher, node: &str, protocol: &str) -> Self {
        Self {
            device,
            application,
            node: node.into(),
            protocol: protocol.into(),
        }
    }

    /// Room for one event, once there is some: with NATS away for long, logins wait here and time out.
    pub async fn slot(&self) -> Slot {
        Slot {
            device: self.device.permit(EVENT_BYTES_MAX).await,
            application: self.application.permit(EVENT_BYTES_MAX).await,
        }
    }

    /// Room for two events. Taken at once: if each held one and waited for its second, many logins would wait for ever.
    pub async fn two_slots(&self) -> (Slot, Slot) {
        let (device, other_device) = self.device.permit(2 * EVENT_BYTES_MAX).await.halves();
        let application = self.application.permit(2 * EVENT_BYTES_MAX).await;
        let (application, other_application) = application.halves();
        let slot = |device, application| Slot {
            device,
            application,
        };
        (
            slot(device, application),
            slot(other_device, other_application),
        )
    }

    /// The device is connected.
    pub fn connected(&self, slot: Slot, connection: &Connection) {
        self.publish(slot, Presence::Connected, connection, None);
    }

    /// The device has a newer connection.
    pub fn taken_over(&self, slot: Slot, connection: &Connection) {
        self.disconnected(slot, connection, CloseReason::TakenOver);
    }

    /// The connection is over.
    pub fn disconnected(&self, slot: Slot, connection: &Connection, reason: CloseReason) {
        self.publish(slot, Presence::Disconnected, connection, Some(reason));
    }

    fn publish(
        &self,
        slot: Slot,
        kind: Presence,
        connection: &Connection,
        reason: Option<CloseReason>,
    ) {
        let (event_id, payload) = event::encode(connection, reason, &self.node, &self.protocol);
        let mut headers = Headers::with_capacity(2);
        headers.push("Nats-Msg-Id", event_id);
        headers.push("Content-Type", "application/json");
        let key = Mapping::device_tokens(&connection.device);
        let to = |subject| Message {
            subject,
            headers: headers.clone(),
            payload: payload.clone(),
        };
        self.device
            .publish(&key, to(kind.device_subject()), None, slot.device, None);
        self.application.publish(
            &key,
            to(kind.application_subject(&connection.device)),
            None,
            slot.application,
            None,
        );
    }
}
