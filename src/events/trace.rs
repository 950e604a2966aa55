//! The span of one input: from when its batch is taken until events and cursor are stored.

use std::time::Duration;

use bytestring::ByteString;

use super::queue::Input;
use crate::telemetry;
use crate::telemetry::otlp::{self, Spans};

/// An input that is sampled.
pub(super) struct Trace {
    traceparent: ByteString,
    source: ByteString,
    events: usize,
    fault: Option<&'static str>,
    start: Duration,
}

impl Trace {
    /// That of an input that is to be stored; none if it is not sampled, or gives nothing.
    pub(super) fn of(spans: &Spans, input: &Input) -> Option<Self> {
        let dead = input.dead.as_ref();
        let message = input.events.first();
        let message = message.or_else(|| dead.map(|dead| &dead.message))?;
        let traceparent = message.headers.get("traceparent")?;
        let header = |name| message.headers.get(name);
        let source = header("Jw-Source").map_or_else(
            || {
                let stream = header("Jw-Stream").unwrap_or_default();
                format!("{stream}:{}", input.sequence)
            },
            str::to_owned,
        );
        spans.keeps(traceparent).then(|| Self {
            traceparent: traceparent.into(),
            source: source.into(),
            events: input.events.len(),
            fault: dead.map(|dead| dead.reason),
            start: telemetry::now(),
        })
    }

    /// It is stored.
    pub(super) fn end(self, spans: &Spans) {
        let end = telemetry::now();
        let events = self.events.to_string();
        let mut attributes = vec![("jetway.source", &*self.source), ("jetway.events", &events)];
        if let Some(fault) = self.fault {
            attributes.push((otlp::ERROR, fault));
            let dead = [("jetway.source", &*self.source), (otlp::ERROR, fault)];
            spans.record("dead letter", &self.traceparent, self.start, end, &dead);
        }
        spans.record("events", &self.traceparent, self.start, end, &attributes);
    }
}
