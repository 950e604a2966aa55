//! FLOW: where devices say that they are (stream `DEVICE_UP`) to rows and outbox rows in one transaction, each exactly once.
//!
//! A shard has the devices of its hash. Its worker reads the source stream from the shard's cursor on, and writes rows of
//! history, latest positions, tracks, outbox rows and the cursor as one transaction: the cursor is the acknowledgement, so whatever
//! dies in between nothing is written twice or left out, and of two workers that both believe they have the shard only one can commit.
//! A lease just keeps the others from reading in vain. What has a fault is a dead letter, stored before the cursor passes.
//! Not here: where a position is in a message and what it means (`position`), and who publishes the outbox (`outbox`).

mod config;
mod deriving;
mod event;
mod history;
mod metrics;
mod progress;
mod queue;
mod reading;
mod replay;
pub mod store;
mod watched;
mod worker;
mod writing;

pub use config::Config;
pub use history::History;
pub use metrics::Metrics;
pub use progress::Progress;
pub use replay::{Replay, Replayed};
pub use watched::Watched;
pub use worker::Worker;
