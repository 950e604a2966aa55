//! What devices say in the words of the thing model, and what applications hear of it (profile §4, §5).
//!
//! A stored message becomes events, perhaps an answer to its device, and perhaps a fault. Pure: no connection, no clock, no
//! logging. The same message, settings and model give the same events, bytes and ids.
//! Invariants: a message gives at most [`EVENTS_MAX`] events; a fault costs what it stands in and nothing else; values go out
//! as the device wrote them.

mod body;
mod definition;
mod interpretation;
mod model;
mod properties;
mod publication;
mod reading;
mod reply;
pub(crate) mod request;

#[cfg(test)]
mod asked_tests;
#[cfg(test)]
mod hostile_tests;

pub use crate::event::Fault;
pub use body::platform_presence;
pub use interpretation::{Interpretation, Knowledge, Origin, Settings, Shape, Unknown, interpret};
pub use model::Model;
pub use publication::EVENTS_MAX;
pub use reply::Reply;
