//! The status event: the envelope of EVENTS with what a consumer needs to discard stale or repeated ones (G28).

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::{Builder, Uuid};

use crate::device::Connection;
use crate::mapping::Presence;
use crate::session::CloseReason;
use crate::telemetry;

#[derive(Serialize)]
struct Envelope<'a> {
    event_id: &'a str,
    event_name: &'static str,
    event_version: &'static str,
    event_time: String,
    producer: &'static str,
    trace_id: String,
    data: Data<'a>,
}

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
    connected_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    disconnected_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The identity of a connection's event, a UUID of version 7: the same whoever says it and how often. Its time is that of
/// the connect.
pub(super) fn id(connection: &Connection, kind: Presence) -> Uuid {
    let digest = Sha256::new()
        .chain_update(&*connection.connection_id)
        .chain_update(kind.as_str())
        .finalize();
    let mut distinct = [0; 10];
    for (to, from) in distinct.iter_mut().zip(digest) {
        *to = from;
    }
    Builder::from_unix_timestamp_millis(connection.connected_at_ms, &distinct).into_uuid()
}

/// The JSON body of the event `id`; `reason` is set for a disconnect.
pub(super) fn encode(
    id: Uuid,
    connection: &Connection,
    reason: Option<CloseReason>,
    protocol: &str,
) -> Bytes {
    let event_id = id.hyphenated().to_string();
    let now = iso8601(telemetry::now_unix_ms());
    let envelope = Envelope {
        event_id: &event_id,
        event_name: match reason {
            None => "device.connection.opened",
            Some(_) => "device.connection.closed",
        },
        event_version: "1.0",
        event_time: now.clone(),
        producer: "jetway",
        // No request of the device stands behind the event, so its trace starts here.
        trace_id: id.simple().to_string(),
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
            connected_at: iso8601(connection.connected_at_ms),
            disconnected_at: reason.map(|_| now),
            reason: reason.map(CloseReason::as_str),
        },
    };
    let body = serde_json::to_vec(&envelope).expect("strings and numbers always serialise");
    body.into()
}

/// Unix milliseconds as `2026-10-14T08:30:00.123Z`.
fn iso8601(unix_ms: u64) -> String {
    let nanoseconds = i128::from(unix_ms) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
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
