//! Brokers: one contract for all that the outbox publishes to, one for all that services consume from. Real servers.
//!
//! Kafka is played by tansu, which speaks its protocol and keeps everything in memory.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod consuming;
#[cfg(test)]
mod place;
#[cfg(test)]
mod publishing;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod shelf;
#[cfg(test)]
mod switching;
