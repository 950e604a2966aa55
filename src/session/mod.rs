//! STEP 2: packet → session. A state machine without I/O, clock or logging: time is an argument.
//!
//! [`connect::agree`] turns a CONNECT into the limits of one connection. [`Session`] is fed with what happens
//! (`handle_*`) and drained of what to do (`poll_output`). A session that outlives its connection is a [`Record`]:
//! it is given out to be stored (`Output::Save`), and the next connection starts with it, on any node.

mod close_reason;
mod config;
pub mod connect;
mod downlink;
mod downlink_window;
mod gate;
mod keep_alive;
mod machine;
mod output;
mod problem;
mod record;
mod subscribing;
mod subscriptions;
mod topic_alias;
mod unreleased;
mod uplink;
mod uplink_window;

pub use close_reason::CloseReason;
pub use config::Config;
pub use machine::Session;
pub use output::{Admission, Delivered, Incoming, Output};
pub use problem::Problem;
pub use record::{InflightRecord, Record, Source, Start, StoredSubscription, Unreleased};
