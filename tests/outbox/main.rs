//! The outbox on real databases and a real nats-server: rows written, claimed, published, looked after; relays that are killed.

#[path = "../support/mod.rs"]
mod support;

mod claims;
mod enqueue;
mod plans;
mod rig;
