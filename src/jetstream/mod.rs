//! STEP 5: publish → `PublishAck`. The NATS connection, the streams that must exist, the publisher.
//!
//! Beside it what streams keep: buckets of keys, reading back, the feed. Nothing here knows devices or MQTT.

pub mod atomic;
mod backlog;
mod batch;
pub mod bucket;
pub mod client;
pub mod consumer;
mod delivery;
mod direct;
mod error;
pub mod feed;
mod fence;
mod guard;
mod inbox;
mod lease;
mod protocol;
pub mod provision;
mod puback;
pub mod publisher;
pub mod pulse;
mod reader;
pub mod receipts;
mod recovery;
mod repeats;
mod settling;
mod shard;
mod state;
mod stored;
mod tries;
mod version;
mod wave;
mod whole;
mod wire;

pub use backlog::Backlog;
pub use bucket::Bucket;
pub use client::Link;
pub use error::Error;
pub use feed::{Fed, Feed};
pub use fence::{Claimant, Fence};
pub use lease::Lease;
pub use publisher::{Permit, Publisher};
pub use reader::Reader;
pub use receipts::{Receipts, Refusal};
pub use repeats::{Memory, Repeats};
pub use state::{DurableState, StreamState};
pub use stored::Stored;
pub use tries::Error as ReadError;
pub use version::{VERSION_MIN, Version};

/// The header by which a stream knows a message that it has.
const MSG_ID: &str = "Nats-Msg-Id";
