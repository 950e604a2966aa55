//! For services in Rust: a durable's events, each handled once, with retries and dead letters as the platform wants them.
//!
#![doc = include_str!("README.md")]

mod config;
mod event;
mod handlers;
mod handling;
mod inbox;
mod inflight;
mod ladder;
mod lanes;
mod metrics;
mod origin;
mod replica;
mod trace;

pub use config::{Config, Order};
pub use event::Event;
pub use handlers::{Failure, Handle};
pub use inbox::Inbox;
pub use metrics::{Metrics, Outcome};
pub use origin::{Origin, OriginError};
pub use replica::Consumer;

pub use crate::database::Transaction;
