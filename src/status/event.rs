//! The status event: the envelope of EVENTS with what a consumer needs to discard stale or repeated ones (G28).

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use crate::device::Connection;
use crate::event::{self, Envelope, Timestamp, derived_id};
use crate::mapping::Presence;
use crate::session::CloseReason;

#[derive(Serialize)]
struct Data<'a> {
    product_id: &'a str,
    device_name: &'a str,
    client_id: &'a str,
    /// Unique for all time.
    connection_id: &'a str,
    /// Rises with every connection of the device.
    epoch: u64,
    node: &'a str,
    protocol: &'a str,
    protocol_version: &'a str,
    peer_address: String,
    connected_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    disconnected_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The identity of a connection's event, a UUID of version 7: the same whoever says it and how often. Its time is that of
/// the connect.
pub(super) fn id(connection: &Connection, kind: Presence) -> Uuid {
    let parts = [
        connection.connection_id.as_bytes(),
        kind.as_str().as_bytes(),
    ];
    derived_id(connection.connected_at_ms, &parts)
}

/// The JSON body of the event `id`, said at `now_ms`, Unix milliseconds; `reason` is set for a disconnect.
pub(super) fn encode(
    id: Uuid,
    connection: &Connection,
    reason: Option<CloseReason>,
    protocol: &str,
    now_ms: u64,
) -> Bytes {
    let now = Timestamp(now_ms);
    let mut trace_id = Uuid::encode_buffer();
    event::encode(&Envelope {
        event_id: id,
        event_name: match reason {
            None => "device.connection.opened",
            Some(_) => "device.connection.closed",
        },
        event_version: "1.0",
        event_time: now,
        producer: "jetway",
        // No request of the device stands behind the event, so its trace starts here.
        trace_id: id.simple().encode_lower(&mut trace_id),
        data: Data {
            product_id: connection.device.product(),
            device_name: connection.device.name(),
            client_id: &connection.client_id,
            connection_id: &connection.connection_id,
            epoch: connection.epoch,
            node: connection.node(),
            protocol,
            protocol_version: connection.version,
            peer_address: connection
                .peer
                .map_or_else(|| "unix".to_owned(), |peer| peer.to_string()),
            connected_at: Timestamp(connection.connected_at_ms),
            disconnected_at: reason.map(|_| now),
            reason: reason.map(CloseReason::as_str),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceId;

    #[test]
    fn an_event_has_one_id_whoever_says_it_and_no_other_event_has_it() {
        // G28
        let connection = |id: &str| Connection {
            device: DeviceId::new("p", "d").unwrap(),
            client_id: "c".into(),
            connection_id: id.into(),
            epoch: 1,
            version: "5.0",
            peer: None,
            connected_at_ms: 1_754_000_000_123,
        };
        let later = Connection {
            epoch: 9,
            version: "",
            ..connection("run.1")
        };
        let of = |run: &str, kind| id(&connection(run), kind);
        let first = of("run.1", Presence::Connected);
        assert_eq!(first, id(&later, Presence::Connected));
        assert_eq!(first.get_version_num(), 7);
        let time = first.get_timestamp().unwrap().to_unix();
        assert_eq!(time, (1_754_000_000, 123_000_000));
        for other in [
            of("run.1", Presence::Disconnected),
            of("run.2", Presence::Connected),
            of("other.1", Presence::Connected),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(connection("run.1").node(), "run");
    }
}
