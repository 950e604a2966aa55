//! One stored message to its events, reply and fault: what goes in, what comes out.
//!
//! Read are the messages of `thing` (property, event, action) and of `ext/ntp` from a device, and the action calls and answers
//! to a device. Any other message is none of the thing model's: it gives nothing, not even a fault.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::model::Model;
use super::reading::Reading;
use super::reply::Reply;
use crate::device::DeviceId;
use crate::event::{self, DEPTH_MAX, Fault};
use crate::message::Message;

/// Where a message comes from.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The device of its topic.
    pub device: &'a DeviceId,
    /// `Jw-Type`: property, event, action, ntp, …
    pub type_: &'a str,
    /// thing, ext, …
    pub handle: &'a str,
    /// When the gateway received it, Unix milliseconds.
    pub received_ms: u64,
    /// The stream that it is stored in; safe as a header's value.
    pub stream: &'a str,
    /// Its place there.
    pub sequence: u64,
    /// Its trace: 32 hex digits.
    pub trace_id: &'a str,
    /// The W3C trace context that its events go on with; safe as a header's value.
    pub traceparent: &'a str,
    /// Whether it goes to the device.
    pub downlink: bool,
}

/// How the body of an event looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// The envelope of EVENTS.
    #[default]
    Envelope,
    /// As the platform of the profile writes them (§5); the properties of a report under the second version of their subject.
    UnitedRhino,
}

/// What becomes of an identifier that the product's model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// It goes out unchecked.
    #[default]
    Keep,
    /// It is left out, as on the platform.
    Drop,
    /// It is left out, and is a fault.
    DeadLetter,
}

/// What the operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How bodies look.
    pub shape: Shape,
    /// Whether each property of a report is an event too, beside that of all.
    pub each_property: bool,
    /// Only where there is a model.
    pub unknown_property: Unknown,
    /// What an event's message may have, in bytes as a server counts them; one that has more is a fault. Headers that publishing adds
    /// must fit beside it.
    pub message_bytes_max: usize,
}

impl Default for Settings {
    /// The envelope, one event a report, everything unknown kept, and what a server takes that is not told otherwise.
    fn default() -> Self {
        Self {
            shape: Shape::default(),
            each_property: false,
            unknown_property: Unknown::default(),
            message_bytes_max: 1_000_000,
        }
    }
}

/// What is known of products and devices.
#[derive(Clone, Copy)]
pub struct Knowledge<'a> {
    /// The model of a product, by its id; none if it has none, then nothing is checked and nothing is answered.
    pub model: &'a dyn Fn(&str) -> Option<Arc<Model>>,
    /// Whether the message's device may report for another one: a gateway device for what is bound to it.
    pub may_act_for: &'a dyn Fn(&DeviceId) -> bool,
}

/// What a message becomes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpretation {
    /// What applications get, in this order.
    pub events: Vec<Message>,
    /// The first thing that is wrong; what it stands in gave no event.
    pub fault: Option<Fault>,
    /// The answer to the device, where its product's model wants one.
    pub reply: Option<Reply>,
}

/// What a message says.
///
/// Never fails: what cannot be read is [`Interpretation::fault`]. Takes time and memory in proportion to the payload. What goes to
/// a device gives no fault and no reply: the device is the one to judge it.
#[must_use]
pub fn interpret(
    payload: &Bytes,
    origin: &Origin<'_>,
    settings: &Settings,
    knowledge: &Knowledge<'_>,
) -> Interpretation {
    let is_read = match (origin.handle, origin.type_) {
        ("thing", "action") => true,
        ("thing", "property" | "event") | ("ext", "ntp") => !origin.downlink,
        _ => false,
    };
    if !is_read {
        return Interpretation::default();
    }
    let mut interpretation = match event::check(payload, DEPTH_MAX) {
        Ok(text) => Reading::new(origin, settings, knowledge).read(text),
        Err(fault) => Interpretation {
            fault: Some(fault),
            ..Interpretation::default()
        },
    };
    if origin.downlink {
        interpretation.fault = None;
    }
    interpretation
}

#[cfg(test)]
#[path = "interpretation_tests.rs"]
mod tests;
