//! From what is said to the messages that applications get: subject, headers, identity, body.

use bytestring::ByteString;

use crate::event::{self, Envelope, Fault, Timestamp, derived_id, reason};
use crate::mapping::Report;
use crate::message::{Headers, Message};

use super::body::{Data, Platform, Said, What};
use super::interpretation::{Origin, Settings, Shape};

/// How many events one message may give: all of them and the progress that they stand for fit one atomic batch of a stream
/// (1,000 messages).
pub const EVENTS_MAX: usize = 990;

/// The events of one message so far.
pub(super) struct Publication<'a> {
    origin: &'a Origin<'a>,
    settings: &'a Settings,
    /// Headers that all events have.
    traceparent: ByteString,
    source: ByteString,
    events: Vec<Message>,
    is_too_much: bool,
}

impl<'a> Publication<'a> {
    pub(super) fn new(origin: &'a Origin<'a>, settings: &'a Settings) -> Self {
        Self {
            origin,
            settings,
            traceparent: origin.traceparent.into(),
            source: format!("{}:{}", origin.stream, origin.sequence).into(),
            events: Vec::new(),
            is_too_much: false,
        }
    }

    /// Adds the event of what is said, and those of each property of a report where they are wanted.
    pub(super) fn add(&mut self, said: &Said<'_>, path: &str) -> Result<(), Fault> {
        let mut result = self.add_one(said, path);
        if let (true, What::Report(params)) = (self.settings.each_property, said.what) {
            for param in params {
                let what = What::Property(param);
                let one = self.add_one(&Said { what, ..*said }, path);
                result = result.and(one);
            }
        }
        result
    }

    fn add_one(&mut self, said: &Said<'_>, path: &str) -> Result<(), Fault> {
        // Events that are not sent need not be made.
        self.is_too_much |= self.events.len() >= EVENTS_MAX;
        if self.is_too_much {
            return Ok(());
        }
        let subject = self
            .report(said)
            .subject(said.device)
            .map_err(|error| Fault::new(reason::IDENTIFIER, path, error.to_string()))?;
        let origin = self.origin;
        let sequence = origin.sequence.to_be_bytes();
        let index = u16::try_from(self.events.len()).unwrap_or(u16::MAX);
        let parts = [origin.stream.as_bytes(), &sequence, &index.to_be_bytes()];
        let id = derived_id(origin.received_ms, &parts);
        let name = name(said);
        let payload = match self.settings.shape {
            Shape::Envelope => event::encode(&Envelope {
                event_id: id,
                event_name: name,
                event_version: "1.0",
                event_time: Timestamp(origin.received_ms),
                producer: "jetway",
                trace_id: origin.trace_id,
                data: Data::new(said, origin.received_ms, origin.downlink),
            }),
            Shape::UnitedRhino => serde_json::to_vec(&Platform::new(said, origin.downlink))
                .expect("texts, numbers and raw values always serialise")
                .into(),
        };
        let mut headers = Headers::with_capacity(256);
        let json = ByteString::from_static("application/json");
        headers.push("Content-Type", json);
        headers.push("Jw-Event", ByteString::from_static(name));
        headers.push("Jw-Event-Id", id.hyphenated().to_string());
        headers.push("traceparent", self.traceparent.clone());
        headers.push("Jw-Source", self.source.clone());
        let event = Message {
            subject,
            headers,
            payload,
        };
        match (event.wire_bytes(), self.settings.message_bytes_max) {
            (bytes, max) if bytes > max => {
                let rule = format!("expected an event of at most {max} bytes, found {bytes}");
                Err(Fault::new(reason::TOO_LARGE, path, rule))
            }
            _ => {
                self.events.push(event);
                Ok(())
            }
        }
    }

    fn report<'s>(&self, said: &Said<'s>) -> Report<'s> {
        match said.what {
            What::Report(_) => match self.settings.shape {
                Shape::Envelope => Report::Properties,
                Shape::UnitedRhino => Report::PropertiesV2,
            },
            What::Property((id, _)) => Report::Property(id),
            What::Event { type_, id, .. } => Report::Event { type_, id },
            What::Action { id, is_answer, .. } => Report::Action {
                id,
                is_answer,
                downlink: self.origin.downlink,
            },
        }
    }

    /// The events, or that they are too many for one message.
    pub(super) fn finish(self) -> Result<Vec<Message>, Fault> {
        match self.is_too_much {
            false => Ok(self.events),
            true => {
                let rule = format!("expected a message of at most {EVENTS_MAX} events");
                Err(Fault::new(reason::TOO_MANY, "", rule))
            }
        }
    }
}

fn name(said: &Said<'_>) -> &'static str {
    match said.what {
        What::Report(_) | What::Property(_) => "device.property.reported",
        What::Event { .. } => "device.event.posted",
        What::Action { is_answer, .. } => match is_answer {
            false => "device.action.requested",
            true => "device.action.answered",
        },
    }
}
