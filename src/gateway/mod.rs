//! Composition root: builds every part, wires them, starts them, drains them. No logic of its own.
//!
//! `lifecycle` is a gateway from start to drain, `parts` what it is built of, `events` the role that makes events,
//! `outbox` the one that publishes what is committed in the database.

mod events;
mod lifecycle;
mod outbox;
mod parts;

pub use lifecycle::{Gateway, durables, mapping, streams};
