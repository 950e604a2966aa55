//! DISCONNECT, the last packet of a connection that the gateway ends; MQTT 3.1.1 has none from a server.

use bytestring::ByteString;

use super::wire::Wire;
use crate::mqtt::{Disconnect, Packet, ReasonCode, Version};
use crate::session::CloseReason;

/// Puts DISCONNECT behind what is to be written, if the device can be told.
///
/// When this node stops, MQTT 5 devices are sent to `server_reference` for now (0x9C, §4.11). A device that takes no packet of
/// that size, and every one where there is no other server, is told that this one stops (0x8B).
pub(super) fn say(wire: &mut Wire, reason: CloseReason, server_reference: Option<&ByteString>) {
    let (Some(code), Some(Version::V5)) = (reason.reason_code(), wire.codec.version()) else {
        return;
    };
    if let (CloseReason::ServerShuttingDown, Some(other)) = (reason, server_reference) {
        let mut goodbye = disconnect(ReasonCode::UseAnotherServer);
        goodbye.server_reference = Some(other.clone());
        if wire.send(&Packet::Disconnect(goodbye)).is_ok() {
            return;
        }
    }
    if let Err(error) = wire.send(&Packet::Disconnect(disconnect(code))) {
        tracing::error!(%error, "DISCONNECT cannot be encoded");
    }
}

/// In words as well, where they fit [MQTT-3.14.2-3]: paho for Python reads the code only if there is something behind it.
fn disconnect(code: ReasonCode) -> Disconnect {
    let mut disconnect = Disconnect::new(code);
    disconnect.reason_string = Some(code.to_string().into());
    disconnect
}
