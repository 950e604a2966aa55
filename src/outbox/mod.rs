//! Transactional outbox: events written in the transaction of what they tell about, and published afterwards.
//!
//! Invariants: an event is stored with its business row or not at all; it is published in the order of its aggregate; it is
//! removed only after a broker said that it has it, or by an operator.

mod config;
mod metrics;
pub mod publisher;
mod relay;
mod serve;
pub mod store;

pub use config::{Broker, Config};
pub use metrics::Metrics;
pub use publisher::Publisher;
pub use relay::{Pass, Relay};
pub use store::{Answer, Row};
