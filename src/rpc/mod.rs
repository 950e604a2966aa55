//! FLOW: a NATS request → a connected device → its answer; nothing of it is stored (`device.rpc.…`).
//!
//! The nodes share the requests. The one that gets it finds out who holds the device, itself or another node, and waits no longer
//! than the sender. The device's connection sends one PUBLISH with QoS 0, and finds the answer among the device's uplinks, which are
//! stored as always. A device that is not there is known at once. One behind a gateway device is asked through that, while it is bound
//! to it, and the gateway device's limits count.

mod ask;
mod board;
mod config;
mod desk;
mod holder;
mod metrics;
mod refusal;

pub use ask::Ask;
pub use board::Board;
pub use config::Config;
pub use desk::{Desk, Requests};
pub use metrics::Metrics;
pub use refusal::Refusal;
