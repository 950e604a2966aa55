//! What one key of the bucket of sessions holds: JSON, so that an operator can read it.
//!
//! Unknown fields are tolerated, so that nodes of two releases can share a bucket.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::BytesMut;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::device::{Connection, DeviceId};
use crate::mqtt::{Codec, Packet, PacketId, Publish, QoS, Version};
use crate::session::Record;

/// A device's session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Document {
    /// The node that owes something for it: it serves the connection, or keeps the time of the Will. None: nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Box<str>>,
    /// Since when there is no connection, Unix milliseconds; none: there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disconnected_at_ms: Option<u64>,
    /// The revision of the claim; 0: of this very write, which could not know it.
    pub(super) epoch: u64,
    /// The connection that holds it, or held it last; its epoch stands above.
    #[serde(
        serialize_with = "write_connection",
        deserialize_with = "read_connection"
    )]
    pub(super) connection: Arc<Connection>,
    /// How long it outlives its connection, in seconds.
    pub(super) expiry_s: u32,
    /// The Will, until it is published or given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) will: Option<Box<WillDocument>>,
    /// The session state; none if it ends with its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Box<Record>>,
}

/// [`Connection`], written down.
#[derive(Serialize, Deserialize)]
struct ConnectionDocument {
    product: String,
    name: String,
    client_id: Box<str>,
    connection_id: Box<str>,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    connected_at_ms: u64,
}

impl From<&Connection> for ConnectionDocument {
    fn from(connection: &Connection) -> Self {
        Self {
            product: connection.device.product().to_owned(),
            name: connection.device.name().to_owned(),
            client_id: connection.client_id.clone(),
            connection_id: connection.connection_id.clone(),
            version: connection.version.to_owned(),
            peer: connection.peer,
            connected_at_ms: connection.connected_at_ms,
        }
    }
}

fn write_connection<S: Serializer>(
    connection: &Arc<Connection>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    ConnectionDocument::from(&**connection).serialize(serializer)
}

fn read_connection<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<Connection>, D::Error> {
    let found = ConnectionDocument::deserialize(deserializer)?;
    let versions = [Version::V3_1_1, Version::V5].map(Version::as_str);
    Ok(Arc::new(Connection {
        device: DeviceId::new(&found.product, &found.name).map_err(D::Error::custom)?,
        client_id: found.client_id,
        connection_id: found.connection_id,
        epoch: 0,
        version: versions
            .into_iter()
            .find(|version| *version == found.version)
            .unwrap_or_default(),
        peer: found.peer,
        connected_at_ms: found.connected_at_ms,
    }))
}

/// A Will: what to publish, and how long to wait for the device before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WillMessage {
    /// The message; without packet identifier.
    pub publish: Publish,
    /// The Will Delay Interval in seconds.
    pub delay_s: u32,
}

/// [`WillMessage`], written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WillDocument {
    /// The Will Delay Interval in seconds.
    pub(super) delay_s: u32,
    /// When it is to be published, Unix milliseconds; none while the device is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due_ms: Option<u64>,
    /// An MQTT 5 PUBLISH packet, base64.
    publish: String,
}

/// What a packet takes at most: no Will is larger than the CONNECT that brought it.
const PACKET_BYTES_MAX: u32 = 268_435_455;

impl WillDocument {
    pub(super) fn new(will: &WillMessage) -> Self {
        let mut publish = will.publish.clone();
        // An identifier is part of the packet's form; nobody reads it.
        publish.packet_id = PacketId::new(1).filter(|_| publish.qos > QoS::AtMostOnce);
        let mut packet = BytesMut::new();
        codec()
            .encode(&Packet::Publish(publish), &mut packet)
            .expect("a PUBLISH of decoded parts can be encoded");
        Self {
            delay_s: will.delay_s,
            due_ms: None,
            publish: BASE64.encode(packet),
        }
    }

    /// None: not written by this gateway.
    pub(super) fn publish(&self) -> Option<Publish> {
        let bytes = BASE64.decode(&self.publish).ok()?;
        match codec().decode(&mut BytesMut::from(&*bytes)) {
            Ok(Some(Packet::Publish(publish))) => Some(Publish {
                packet_id: None,
                ..publish
            }),
            _ => None,
        }
    }
}

fn codec() -> Codec {
    let mut codec = Codec::new(PACKET_BYTES_MAX);
    codec.set_version(Version::V5);
    codec
}

impl Document {
    /// Reads what a bucket holds; none if it is not ours to understand.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value)
            .inspect_err(|error| tracing::error!(%error, "unreadable session"))
            .ok()
    }

    pub(super) fn write(&self) -> bytes::Bytes {
        serde_json::to_vec(self)
            .expect("strings and numbers always serialise")
            .into()
    }

    /// The epoch, of what was read at this revision.
    pub(super) fn epoch_at(&self, revision: u64) -> u64 {
        match self.epoch {
            0 => revision,
            epoch => epoch,
        }
    }

    /// Sets the epoch, of the connection as well.
    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        Arc::make_mut(&mut self.connection).epoch = epoch;
    }

    pub(super) fn is_connected(&self) -> bool {
        self.disconnected_at_ms.is_none()
    }

    /// Whether the session is over, although its key is still there.
    pub(super) fn is_expired(&self, now_ms: u64) -> bool {
        self.disconnected_at_ms.is_some_and(|since| {
            now_ms.saturating_sub(since) >= u64::from(self.expiry_s).saturating_mul(1000)
        })
    }

    /// How long the key is to stay: what is left of the session's life, in whole seconds, at least one.
    pub(super) fn time_to_live_s(&self, now_ms: u64) -> u64 {
        let since = self.disconnected_at_ms.unwrap_or(now_ms);
        let gone_s = now_ms.saturating_sub(since) / 1000;
        u64::from(self.expiry_s).saturating_sub(gone_s).max(1)
    }

    /// The connection ended at `now_ms`: sets when the Will is due; none is due later than the session's end.
    pub(super) fn disconnect(&mut self, now_ms: u64) {
        self.disconnected_at_ms = Some(now_ms);
        if let Some(will) = &mut self.will {
            let delay_s = will.delay_s.min(self.expiry_s); // [MQTT-3.1.3-9]
            will.due_ms = Some(now_ms.saturating_add(u64::from(delay_s) * 1000));
        }
    }

    /// The session ends now: a Will that waits for the device is due [MQTT-3.1.2-8].
    pub(super) fn end_session(&mut self, now_ms: u64) {
        self.expiry_s = 0;
        if let Some(will) = &mut self.will {
            will.due_ms = Some(now_ms);
        }
    }

    /// Takes the Will out if it is due.
    pub(super) fn take_due_will(&mut self, now_ms: u64) -> Option<Publish> {
        let due = |will: &mut Box<WillDocument>| will.due_ms.is_some_and(|due| due <= now_ms);
        self.will.take_if(due)?.publish()
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
