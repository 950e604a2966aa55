//! Step 1: bytes to MQTT Control Packets and back, versions 3.1.1 and 5.0, in both directions.
//!
//! Pure: no socket, no clock, no logging. [`Codec`] splits one packet off a buffer; payloads, strings and
//! user properties stay slices of that buffer. Whatever a decoder accepts satisfies the specification's
//! rules for that packet alone; rules that need the session's state (who may send what, when) are not decided here.
//! Network bytes never panic: each fault is an [`Error`] with the Reason Code that MQTT 5 has for it.

mod codec;
mod packet;
mod property;
mod reader;
mod reason;
mod topic;
mod user_property;
mod writer;

pub use codec::{Codec, frame_bytes};
pub use packet::{
    Ack, Auth, Connack, ConnackProperties, Connect, ConnectProperties, Disconnect, Packet,
    PacketId, Publish, PublishProperties, QoS, Suback, Subscribe, Subscription, Unsuback,
    Unsubscribe, Version, Will,
};
pub use reason::ReasonCode;
pub use topic::{TopicFilter, TopicName};
pub use user_property::UserProperties;

/// Why bytes are not a packet, or a packet has no bytes: the place, and what was expected there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{packet} {field}: expected {expected}")]
pub struct Error {
    /// What to tell the peer in CONNACK or DISCONNECT (MQTT 5 §4.13); 3.1.1 just closes.
    pub reason: ReasonCode,
    /// The packet type in the specification's spelling, such as `PUBLISH`.
    pub packet: &'static str,
    /// The field in the specification's words, such as `topic name`.
    pub field: &'static str,
    /// What the specification asks for there.
    pub expected: &'static str,
}

impl Error {
    /// Bytes that cannot be parsed (§1.2 Malformed Packet).
    fn malformed(packet: &'static str, field: &'static str, expected: &'static str) -> Self {
        Self {
            reason: ReasonCode::MalformedPacket,
            packet,
            field,
            expected,
        }
    }

    /// Something that can be parsed and is not allowed (§1.2 Protocol Error).
    fn protocol(packet: &'static str, field: &'static str, expected: &'static str) -> Self {
        Self {
            reason: ReasonCode::ProtocolError,
            ..Self::malformed(packet, field, expected)
        }
    }
}
