//! The outbox in its database: rows written by business transactions, claimed and settled by relays, looked after by operators.

mod event;

pub use event::Event;
