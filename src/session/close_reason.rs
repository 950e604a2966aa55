//! Why a connection ends: in the words of status events, logs and metrics, and in what the device is told.

use crate::mqtt::ReasonCode;

/// Why a connection ends, in the words of the status events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The device said DISCONNECT.
    Normal,
    /// The device said DISCONNECT and wants its Will published.
    NormalWithWill,
    /// The socket ended without DISCONNECT.
    SocketClosed,
    /// Silence for one and a half times the keep alive.
    KeepAliveTimeout,
    /// The device connected again.
    TakenOver,
    /// Bytes that are not MQTT, or MQTT against its rules; the code says which.
    Protocol(ReasonCode),
    /// The device could not prove itself again, or its login has ended; the code is for the device.
    Authentication(ReasonCode),
    /// The device does not read what it is sent.
    WriteTimeout,
    /// The stream refused a message and MQTT 3.1.1 has no way to say so.
    NotStored,
    /// The operator shut the device out, or changed what it proves itself with.
    Revoked,
    /// A sub-device: its gateway device is not connected any more.
    GatewayLost,
    /// This node stops.
    ServerShuttingDown,
    /// The node that served it is gone; said by another one.
    NodeLost,
}

impl CloseReason {
    /// The word in status events, logs and metrics; the set is fixed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::NormalWithWill => "normal_with_will",
            Self::SocketClosed => "socket_closed",
            Self::KeepAliveTimeout => "keep_alive_timeout",
            Self::TakenOver => "taken_over",
            Self::Protocol(ReasonCode::MalformedPacket) => "malformed_packet",
            Self::Protocol(ReasonCode::PacketTooLarge) => "packet_too_large",
            Self::Protocol(_) => "protocol_error",
            Self::Authentication(_) => "not_authenticated",
            Self::WriteTimeout => "write_timeout",
            Self::NotStored => "not_stored",
            Self::Revoked => "revoked",
            Self::GatewayLost => "gateway_lost",
            Self::ServerShuttingDown => "server_shutting_down",
            Self::NodeLost => "node_lost",
        }
    }

    /// What an MQTT 5 device is told before the socket closes; `None` where it spoke last or cannot hear.
    #[must_use]
    pub fn reason_code(self) -> Option<ReasonCode> {
        match self {
            Self::Normal
            | Self::NormalWithWill
            | Self::SocketClosed
            | Self::WriteTimeout
            | Self::GatewayLost
            | Self::NodeLost => None,
            Self::KeepAliveTimeout => Some(ReasonCode::KeepAliveTimeout),
            Self::TakenOver => Some(ReasonCode::SessionTakenOver),
            Self::Protocol(reason) | Self::Authentication(reason) => Some(reason),
            Self::NotStored => Some(ReasonCode::UnspecifiedError),
            Self::Revoked => Some(ReasonCode::AdministrativeAction),
            Self::ServerShuttingDown => Some(ReasonCode::ServerShuttingDown),
        }
    }

    /// Whether the Will is published: always, except after a DISCONNECT with reason 0x00.
    #[must_use]
    pub fn publishes_will(self) -> bool {
        self != Self::Normal // [MQTT-3.14.4-3]
    }
}
