//! The Control Packets of MQTT (§3), one file per packet type; both versions share one struct.
//!
//! What only MQTT 5 has is empty after decoding 3.1.1 and left out when encoding it. Each struct reads and
//! writes its own variable header and payload; `codec` does the fixed header and picks the struct.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod packet_id;
mod publish;
mod subscribe;
mod unsubscribe;
mod will;

pub use ack::Ack;
pub use auth::Auth;
pub use connack::{Connack, ConnackProperties};
pub use connect::{Connect, ConnectProperties, Version};
pub use disconnect::Disconnect;
pub use packet_id::PacketId;
pub use publish::{Publish, PublishProperties, QoS};
pub use subscribe::{Suback, Subscribe, Subscription};
pub use unsubscribe::{Unsuback, Unsubscribe};
pub use will::Will;

/// One MQTT Control Packet of either version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// A client asks for a connection.
    Connect(Box<Connect>),
    /// The answer to CONNECT.
    Connack(Connack),
    /// A message.
    Publish(Publish),
    /// The answer to a PUBLISH with QoS 1.
    Puback(Ack),
    /// The first answer to a PUBLISH with QoS 2.
    Pubrec(Ack),
    /// The answer to PUBREC.
    Pubrel(Ack),
    /// The answer to PUBREL.
    Pubcomp(Ack),
    /// A client asks for messages.
    Subscribe(Subscribe),
    /// The answer to SUBSCRIBE.
    Suback(Suback),
    /// A client wants no more messages.
    Unsubscribe(Unsubscribe),
    /// The answer to UNSUBSCRIBE.
    Unsuback(Unsuback),
    /// A client is alive.
    Pingreq,
    /// The answer to PINGREQ.
    Pingresp,
    /// The last packet of a connection.
    Disconnect(Disconnect),
    /// A step of extended authentication; MQTT 5 only.
    Auth(Auth),
}
