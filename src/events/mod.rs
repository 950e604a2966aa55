//! FLOW: what devices reported (stream `DEVICE_UP`) to application events (stream `APPLICATION`), each exactly once.
//!
//! A shard has the devices of its hash. Its worker reads the source stream from the shard's `cursor` on, and stores
//! events and cursor as one atomic batch: so progress is stored with what it means, whatever dies in between, and of two
//! workers that both believe they have the shard only one can commit. A `lease` just keeps the others from reading in vain.
//! What has a fault is a dead letter, what wants an answer gets one; both are stored before the cursor passes.
//! Not here: what a message means (`thing`), and who reads the events.

mod config;
mod cursor;
mod metrics;
mod models;
mod progress;
mod queue;
mod reading;
mod storing;
mod trace;
mod worker;

pub use config::Config;
pub use metrics::Metrics;
pub use models::{MODELS, Models};
pub use progress::Progress;
pub use worker::Worker;
