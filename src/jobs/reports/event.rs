//! Events of the jobs as the outbox has them.

use serde::Serialize;

use crate::device::DeviceId;
use crate::event::{Envelope, Timestamp, derived_id, encode};
use crate::mapping::GpsEvent;
use crate::message::Headers;
use crate::outbox::store::Event;

const VERSION: &str = "1.0";

/// An event about a device, the same each time for the same `parts`; `at_ms` is when what it tells happened.
pub(super) fn event<D: Serialize>(
    kind: GpsEvent,
    device: &DeviceId,
    at_ms: u64,
    parts: &[&[u8]],
    data: D,
) -> Event {
    let event_id = derived_id(at_ms, parts);
    // No message of the device's: the event begins a trace of its own.
    let trace_id = event_id.simple().to_string();
    Event {
        event_id,
        event_type: kind.name().into(),
        event_version: VERSION.into(),
        aggregate_type: "device".into(),
        aggregate_id: device.to_string().into(),
        subject: kind.subject(device),
        payload: encode(&Envelope {
            event_id,
            event_name: kind.name(),
            event_version: VERSION,
            event_time: Timestamp(at_ms),
            producer: "jetway",
            trace_id: &trace_id,
            data,
        }),
        headers: Headers::default(),
        trace_id: trace_id.into(),
    }
}
