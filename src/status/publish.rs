//! Both streams' events of one change, under one event id.

use std::sync::Arc;

use super::event;
use crate::device::Connection;
use crate::jetstream::{Permit, Publisher, Receipts};
use crate::mapping::{Mapping, Presence};
use crate::message::{Headers, Message};
use crate::session::CloseReason;
use crate::telemetry;
use crate::thing::{Shape, platform_presence};

/// Publishes status events; cheap to clone.
#[derive(Clone)]
pub struct Status {
    device: Publisher,
    application: Publisher,
    protocol: Arc<str>,
    shape: Shape,
}

/// Room for one event in both streams.
pub struct Slot {
    device: Permit,
    application: Permit,
}

/// What a status event takes at most; names are bounded, so this is generous.
const EVENT_BYTES_MAX: usize = 2_048;
/// For how long after its beginning a connection's first event may not be stored; half of the streams' duplicate window.
const BEGIN_IN_DOUBT_MS: u64 = 60_000;

impl Status {
    /// Status events of devices that speak `protocol`, into the streams of the two publishers.
    #[must_use]
    pub fn new(device: Publisher, application: Publisher, protocol: &str) -> Self {
        Self {
            device,
            application,
            protocol: protocol.into(),
            shape: Shape::default(),
        }
    }

    /// The same, with bodies of this shape for applications.
    #[must_use]
    pub fn for_applications(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// Room for so many events, once there is some: with NATS away for long, logins wait here and time out.
    ///
    /// Taken at once: if each held one and waited for its second, many logins would wait for ever.
    pub async fn slots<const N: usize>(&self) -> [Slot; N] {
        let mut device = self.device.permit(N * EVENT_BYTES_MAX).await;
        let mut application = self.application.permit(N * EVENT_BYTES_MAX).await;
        std::array::from_fn(|_| Slot {
            device: device.part(EVENT_BYTES_MAX),
            application: application.part(EVENT_BYTES_MAX),
        })
    }

    /// The device is connected.
    pub fn connected(&self, slot: Slot, connection: &Connection) {
        self.publish(slot, Presence::Connected, connection, None);
    }

    /// The connection is over; returns once that is stored, however long it takes: what is said later of the device, by whatever
    /// node, is to stand behind it.
    ///
    /// Whoever says it again for the same connection, on whatever node, adds nothing.
    pub async fn disconnected(&self, slot: Slot, connection: &Connection, reason: CloseReason) {
        let stored = self.publish(slot, Presence::Disconnected, connection, Some(reason));
        stored.finished(1).await;
    }

    /// Connections that are over for one reason, as [`disconnected`](Self::disconnected) says it of one.
    pub async fn all_disconnected<'c>(
        &self,
        connections: impl IntoIterator<Item = &'c Arc<Connection>>,
        reason: CloseReason,
    ) {
        let mut stored = Vec::new();
        for connection in connections {
            let [slot] = self.slots().await;
            let presence = Presence::Disconnected;
            stored.push(self.publish(slot, presence, connection, Some(reason)));
        }
        for stored in stored {
            stored.finished(1).await;
        }
    }

    /// The connection is over and could not say so itself, nor perhaps that it began: that is said again as long as the streams
    /// know whether they have it.
    pub async fn lost(&self, [connected, disconnected]: [Slot; 2], connection: &Connection) {
        let age_ms = telemetry::now_unix_ms().saturating_sub(connection.connected_at_ms);
        if age_ms < BEGIN_IN_DOUBT_MS {
            self.connected(connected, connection);
        }
        self.disconnected(disconnected, connection, CloseReason::NodeLost)
            .await;
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
        let now_ms = telemetry::now_unix_ms();
        let payload = event::encode(id, connection, reason, &self.protocol, now_ms);
        let for_applications = match (self.shape, kind) {
            (Shape::Envelope, _) => payload.clone(),
            (Shape::UnitedRhino, Presence::Connected) => {
                platform_presence(&connection.device, kind, connection.connected_at_ms)
            }
            (Shape::UnitedRhino, Presence::Disconnected) => {
                platform_presence(&connection.device, kind, now_ms)
            }
        };
        let mut headers = Headers::with_capacity(128);
        headers.push("Nats-Msg-Id", id.hyphenated().to_string());
        headers.push("Content-Type", "application/json");
        let key = Mapping::device_tokens(&connection.device);
        let to = |subject, payload| Message {
            subject,
            headers: headers.clone(),
            payload,
        };
        let stored = Arc::default();
        let subject = kind.device_subject();
        self.device
            .publish(&key, to(subject, payload), None, slot.device, Some(&stored));
        self.application.publish(
            &key,
            to(
                kind.application_subject(&connection.device),
                for_applications,
            ),
            None,
            slot.application,
            None,
        );
        stored
    }
}
