//! What is told of a message: its steps in the order in which they were stored, and what could not be found.

use std::fmt;

use serde::Serialize;
use time::OffsetDateTime;

use super::search::{Found, Handling};
use crate::event::iso8601;

/// Everything about what was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Story {
    pub(super) device: String,
    pub(super) asked: String,
    /// In the order of time.
    pub(super) steps: Vec<Step>,
    /// What could not be found or is not known, each a sentence.
    pub(super) unknown: Vec<String>,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// The device's message is stored.
    Uplink,
    /// An application event was made of it.
    Event,
    /// It was published again, for one durable alone.
    Replay,
    /// It could not be handled or delivered.
    DeadLetter,
    /// A message waits for the device.
    Downlink,
}

/// One stored message of the story.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) what: What,
    /// When it was stored, RFC 3339.
    pub(super) time: String,
    pub(super) stream: String,
    pub(super) sequence: u64,
    pub(super) subject: String,
    /// Its id, the event's id, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) id: String,
    /// Where it comes from: `<stream>:<sequence>` of another step.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) of: String,
    /// The event's name, the message's type, the reason of a dead letter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) traceparent: String,
    /// What durables have done with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) durables: Vec<Handling>,
}

impl Step {
    pub(super) fn new(what: What, found: &Found) -> Self {
        let header = |name| found.header(name).to_owned();
        let (id, of, detail) = match what {
            What::Uplink => (header("Jw-Id"), String::new(), header("Jw-Type")),
            What::Event => (
                header("Jw-Event-Id"),
                header("Jw-Source"),
                header("Jw-Event"),
            ),
            What::Replay => (header("Jw-Id"), header("Jw-Source"), header("Jw-Event")),
            What::DeadLetter => (String::new(), dead_of(found), reason(found)),
            What::Downlink => (header("Nats-Msg-Id"), String::new(), header("Jw-Type")),
        };
        Self {
            what,
            time: rfc3339(found.stored),
            stream: found.stream.clone(),
            sequence: found.sequence,
            subject: found.message.subject.to_string(),
            id,
            of,
            detail,
            traceparent: header("traceparent"),
            durables: Vec::new(),
        }
    }
}

/// Which message a dead letter is about, as `<stream>:<sequence>`.
pub(super) fn dead_of(dead: &Found) -> String {
    let stream = match dead.header("Jw-Stream") {
        // Dead downlinks do not say it: there is one delivery stream.
        "" if dead.message.subject.starts_with("dlq.downlink.") => "DEVICE_DOWN",
        stream => stream,
    };
    match dead.header("Jw-Sequence") {
        "" => String::new(),
        sequence => format!("{stream}:{sequence}"),
    }
}

fn reason(dead: &Found) -> String {
    let mut text = dead.header("Jw-Reason").to_owned();
    for (name, before) in [
        ("Jw-Path", " at "),
        ("Jw-Rule", ": "),
        ("Jw-Detail", ": "),
        ("Jw-Durable", ", durable "),
        ("Jw-Attempts", ", attempts "),
    ] {
        if !dead.header(name).is_empty() {
            text = text + before + dead.header(name);
        }
    }
    text
}

/// A time with milliseconds, in UTC.
pub(super) fn rfc3339(time: OffsetDateTime) -> String {
    let ms = u64::try_from(time.unix_timestamp_nanos() / 1_000_000);
    iso8601(ms.unwrap_or_default())
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.device, self.asked)?;
        for step in &self.steps {
            write!(f, "{step}")?;
        }
        for unknown in &self.unknown {
            writeln!(f, "?  {unknown}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Uplink => "stored",
            What::Event => "event",
            What::Replay => "replayed",
            What::DeadLetter => "dead letter",
            What::Downlink => "waits for the device",
        };
        let (stream, sequence) = (&self.stream, self.sequence);
        write!(f, "{}  {what}  {stream}:{sequence}", self.time)?;
        if !self.of.is_empty() {
            write!(f, "  of {}", self.of)?;
        }
        if !self.detail.is_empty() {
            write!(f, "  {}", self.detail)?;
        }
        writeln!(f, "\n      {}", self.subject)?;
        for (name, value) in [("id", &self.id), ("trace", &self.traceparent)] {
            if !value.is_empty() {
                writeln!(f, "      {name} {value}")?;
            }
        }
        for Handling { durable, state } in &self.durables {
            writeln!(f, "      durable {durable}: {state}")?;
        }
        Ok(())
    }
}
