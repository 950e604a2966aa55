//! The span of one PUBLISH: from when it was received until the stream has answered.
//!
//! It begins the trace, unless the device had one: then it is a part of that one. What says so is the stored message's own
//! trace context.

use std::time::Duration;

use bytestring::ByteString;

use crate::device::DeviceId;
use crate::jetstream::Refusal;
use crate::message::Message;
use crate::telemetry;
use crate::telemetry::otlp::{self, Spans};

const NAME: &str = "PUBLISH";

/// A span that has begun.
#[derive(Debug)]
pub(super) struct Span {
    traceparent: ByteString,
    /// Whether the trace begins with it.
    begins: bool,
    subject: ByteString,
    id: ByteString,
    start: Duration,
}

impl Span {
    /// That of a message which was just received; `made` is the trace context that it has if the device sent none. None if it is not
    /// sampled.
    pub(super) fn of(spans: &Spans, message: &Message, made: &str) -> Option<Self> {
        if !spans.is_on() {
            return None;
        }
        let traceparent = message.headers.get("traceparent")?;
        spans.keeps(traceparent).then(|| Self {
            traceparent: traceparent.into(),
            begins: traceparent == made,
            subject: message.subject.clone(),
            id: message.headers.get("Jw-Id").unwrap_or_default().into(),
            start: telemetry::now(),
        })
    }

    /// Ends it: the message is stored, or was refused.
    pub(super) fn end(
        self,
        spans: &Spans,
        device: &DeviceId,
        end: Duration,
        refusal: Option<&Refusal>,
    ) {
        let mut attributes = vec![
            ("messaging.system", "nats"),
            ("messaging.destination.name", &*self.subject),
            ("messaging.message.id", &*self.id),
            ("device.product", device.product()),
            ("device.name", device.name()),
        ];
        attributes.extend(refusal.map(|refusal| (otlp::ERROR, word(refusal))));
        let (traceparent, start) = (&*self.traceparent, self.start);
        match self.begins {
            true => spans.record_own(NAME, traceparent, None, (start, end), &attributes),
            false => spans.record(NAME, traceparent, start, end, &attributes),
        }
    }
}

fn word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Full(_) => "full",
        Refusal::TooLarge(_) => "too_large",
        Refusal::Refused(_) => "refused",
        Refusal::Fenced => "fenced",
        Refusal::Unanswered => "unanswered",
    }
}
