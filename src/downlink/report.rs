//! Receipts: what became of a downlink whose sender wants to know (`Jw-Receipt`).

use bytes::Bytes;
use serde::Serialize;

use crate::device::DeviceId;
use crate::jetstream::Link;
use crate::mapping::Downlink;
use crate::message::{Headers, Message};
use crate::telemetry;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Receipt {
    /// Written to the device.
    Sent,
    /// The device acknowledged it: PUBACK or PUBCOMP.
    Delivered,
    /// Its lifetime was over before the device had it.
    Expired,
    /// The device refused it, or cannot take it.
    Rejected,
}

#[derive(Serialize)]
struct Event<'a> {
    receipt: Receipt,
    /// The downlink's own id, if its sender gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// Its place in the delivery stream.
    stream_sequence: u64,
    product_id: &'a str,
    device_name: &'a str,
    topic: &'a str,
    time_ms: u64,
}

/// Tells senders what became of their downlinks; cheap to clone.
#[derive(Clone)]
pub struct Reports(Link);

impl Reports {
    /// Reports through this connection.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self(link)
    }

    /// Publishes a receipt where the sender asked for one.
    pub fn report(&self, device: &DeviceId, downlink: &Downlink, receipt: Receipt) {
        let Some(subject) = &downlink.receipt else {
            return;
        };
        let event = Event {
            receipt,
            id: downlink.id.as_deref(),
            stream_sequence: downlink.stream_sequence,
            product_id: device.product(),
            device_name: device.name(),
            topic: &downlink.topic,
            time_ms: telemetry::now_unix_ms(),
        };
        let body = serde_json::to_vec(&event).expect("strings and numbers always serialise");
        let message = Message {
            subject: subject.clone(),
            headers: Headers::default(),
            payload: Bytes::from(body),
        };
        if !self.0.publish_now(message) {
            tracing::warn!(%subject, ?receipt, "receipt lost: NATS takes nothing");
        }
    }
}
