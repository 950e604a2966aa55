//! Application events as JSON: their envelope, written and read, and JSON of strangers made safe to read.
//!
//! Pure: no connection, no clock, no logging; times are arguments. What an event's data says is its publisher's matter.
//! Invariants: the same stored input gives the same event id; whatever bytes come, reading them takes linear time and ends in a
//! value or in a [`Fault`].

mod envelope;
mod fault;
mod json;
mod received;

pub use envelope::{Envelope, Timestamp, derived_id, derived_trace, encode, iso8601, moment};
pub(crate) use fault::descend;
pub use fault::{Fault, PATH_BYTES_MAX, reason};
pub use json::{DEPTH_MAX, NUMBER_BYTES_MAX};
pub(crate) use json::{Members, check, is_object};
pub use received::Received;
