//! Both streams' events of one change, under one event id.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::event;
use crate::device::Connection;
use crate::jetstream::{Permit, Publisher, Receipts};
use crate::mapping::{Mapping, Presence};
use crate::message::{Headers, Message};
use crate::session::CloseReason;

/// Publishes status events; cheap to clone.
#[derive(Clone)]
pub struct Status {
    device: Publisher,
    application: Publisher,
    protocol: Arc<str>,
}

/// Room for one event in both streams.
pub struct Slot {
    device: Permit,
    application: Permit,
}

/// What a status event takes at most; names are bounded, so this is generous.
const EVENT_BYTES_MAX: usize = 2_048;
/// How long the end of a connection waits until its event is stored.
const STORED_MAX: Duration = Duration::from_secs(2);

impl Status {
    /// Status events of devices that speak `protocol`, into the streams of the two publishers.
    #[must_use]
    pub fn new(device: Publisher, application: Publisher, protocol: &str) -> Self {
        Self {
            device,
            application,
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

    /// The connection is over; returns once that is stored, or nobody answered for a while.
    ///
    /// Whoever says it again for the same connection, on whatever node, adds nothing.
    pub async fn disconnected(&self, slot: Slot, connection: &Connection, reason: CloseReason) {
        let stored = self.publish(slot, Presence::Disconnected, connection, Some(reason));
        let finished = std::future::poll_fn(|context| stored.poll_finished(context, 0));
        drop(timeout(STORED_MAX, finished).await);
    }

    /// What becomes of the device's event is counted in what it gives.
    fn publish(
        &self,
        slot: Slot,
        kind: Presence,
        connection: &Connection,
        reason: Option<CloseReason>,
    ) -> Arc<Receipts> {
        let id = event::id(connection, kind);
        let payload = event::encode(id, connection, reason, &self.protocol);
        let mut headers = Headers::with_capacity(2);
        headers.push("Nats-Msg-Id", id.hyphenated().to_string());
        headers.push("Content-Type", "application/json");
        let key = Mapping::device_tokens(&connection.device);
        let to = |subject| Message {
            subject,
            headers: headers.clone(),
            payload: payload.clone(),
        };
        let stored = Arc::default();
        let subject = kind.device_subject();
        self.device
            .publish(&key, to(subject), None, slot.device, Some(&stored));
        self.application.publish(
            &key,
            to(kind.application_subject(&connection.device)),
            None,
            slot.application,
            None,
        );
        stored
    }
}
