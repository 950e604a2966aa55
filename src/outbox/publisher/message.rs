//! An event as the message that every broker gets.

use crate::message::Message;
use crate::outbox::store::Event;
use crate::telemetry;

/// The message of an event: its own headers, and those that say which event it is.
pub(super) fn message(event: &Event) -> Message {
    let mut headers = event.headers.clone();
    for (name, value) in [
        ("Nats-Msg-Id", event.event_id.to_string()),
        ("Jw-Event", event.event_type.to_string()),
        ("Jw-Event-Id", event.event_id.to_string()),
    ] {
        headers.remove(name);
        headers.push(name, value);
    }
    if headers.get("traceparent").is_none() && event.trace_id.len() == 32 {
        let parent = telemetry::random_u64();
        headers.push(
            "traceparent",
            format!("00-{}-{parent:016x}-01", event.trace_id),
        );
    }
    if headers.get("Content-Type").is_none() {
        headers.push("Content-Type", "application/json");
    }
    Message {
        subject: event.subject.clone(),
        headers,
        payload: event.payload.clone(),
    }
}
