//! Brokers: one contract for all that the outbox publishes to, one for all that services consume from. Real servers.
//!
//! Kafka is played by tansu, which speaks its protocol and keeps everything in memory.

#[path = "../support/mod.rs"]
mod support;

mod consuming;
mod place;
mod publishing;
mod refusals;
mod shelf;
mod switching;
