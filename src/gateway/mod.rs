//! Composition root: builds every part, wires them, starts them, drains them. No logic of its own.
//!
//! `lifecycle` is a gateway from start to drain, `parts` what it is built of, `operator` what it
//! has for whoever looks after it, `catalogue` whom it knows, `protection` its limits, `events`, `gps`, `outbox`
//! and `jobs` the roles of those names.

mod catalogue;
mod events;
mod gps;
mod jobs;
mod lifecycle;
mod operator;
mod outbox;
mod parts;
mod protection;

pub use catalogue::catalogue;
pub use gps::{tables, watched};
pub use jobs::Database;
pub use lifecycle::{Gateway, durables, mapping, streams};
