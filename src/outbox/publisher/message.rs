//! An event as the message that every broker gets.

use crate::message::Message;
use crate::outbox::store::Event;

/// The message of an event: with the headers that events of the gateway have.
pub(super) fn message(event: &Event) -> Message {
    let id = event.event_id.hyphenated().to_string();
    let mut headers = event.headers.clone();
    headers.push("Nats-Msg-Id", id.clone());
    headers.push("Jw-Event", &event.event_type);
    headers.push("Jw-Event-Id", id);
    // What the trace goes on with is this event: a span as good as any other, and the same each time.
    if !event.trace_id.is_empty() && headers.get("traceparent").is_none() {
        let (_, span) = event.event_id.as_u64_pair();
        headers.push(
            "traceparent",
            format!("00-{}-{span:016x}-01", event.trace_id),
        );
    }
    Message {
        subject: event.subject.clone(),
        headers,
        payload: event.payload.clone(),
    }
}
