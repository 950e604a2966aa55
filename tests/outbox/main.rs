//! The outbox on real databases and a real nats-server: rows written, claimed, published, looked after; relays that are killed.

#![cfg(test)]

#[path = "../support/mod.rs"]
mod support;

mod blocked;
mod claims;
mod enqueue;
mod operators;
mod outages;
mod plans;
mod relays;
mod rig;
mod site;
