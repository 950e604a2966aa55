//! An event as a consumer gets it: the envelope read, the data left as it is.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::{Fault, reason};
use super::json::{DEPTH_MAX, check, is_object};

/// What a device wrote as deep as it may, and the event around it.
const EVENT_DEPTH_MAX: usize = DEPTH_MAX + 8;

/// An event that was read.
#[derive(Debug, Clone)]
pub struct Received {
    /// What a consumer knows a repeated event by; not empty.
    pub event_id: String,
    /// `domain.resource.verb`; not empty.
    pub event_name: String,
    /// Such as `1.0`; not empty.
    pub event_version: String,
    /// ISO 8601 as its producer wrote it, unchecked.
    pub event_time: String,
    /// Who made it.
    pub producer: String,
    /// The trace that goes on with it, as its producer wrote it.
    pub trace_id: String,
    /// What it says: the JSON text of an object.
    pub data: Box<RawValue>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    event_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event_time: Option<&'a RawValue>,
    #[serde(borrow, default)]
    producer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    trace_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl Received {
    /// Reads an event of any name and version. Fields beside the envelope's are ignored.
    ///
    /// # Errors
    /// Not JSON that is safe to read; no object; without id, name, version or data; a field that is no text.
    pub fn parse(payload: &[u8]) -> Result<Self, Fault> {
        let text = check(payload, EVENT_DEPTH_MAX)?;
        let shape = |path: &str, rule: &str| Fault::new(reason::SHAPE, path, rule);
        if !is_object(text) {
            return Err(shape("", "expected an object"));
        }
        let wire: Wire<'_> =
            serde_json::from_str(text).map_err(|error| shape("", &error.to_string()))?;
        let optional = |name: &str, value: Option<&RawValue>| match value {
            None => Ok(String::new()),
            Some(raw) => serde_json::from_str::<Cow<'_, str>>(raw.get())
                .map(Cow::into_owned)
                .map_err(|_not_a_text| shape(&format!("/{name}"), "expected a text")),
        };
        let required = |name: &str, value| match optional(name, value)? {
            text if text.is_empty() => Err(shape(&format!("/{name}"), "expected a text")),
            text => Ok(text),
        };
        let data = wire.data.filter(|data| is_object(data.get()));
        Ok(Self {
            event_id: required("event_id", wire.event_id)?,
            event_name: required("event_name", wire.event_name)?,
            event_version: required("event_version", wire.event_version)?,
            event_time: optional("event_time", wire.event_time)?,
            producer: optional("producer", wire.producer)?,
            trace_id: optional("trace_id", wire.trace_id)?,
            data: data
                .ok_or_else(|| shape("/data", "expected an object"))?
                .to_owned(),
        })
    }
}

#[cfg(test)]
#[path = "received_tests.rs"]
mod tests;
