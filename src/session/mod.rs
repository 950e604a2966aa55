//! STEP 2: packet → session. A state machine without I/O, clock or logging: time is an argument.
//!
//! [`connect::agree`] turns a CONNECT into the limits of one connection. [`Session`] is fed with what happens
//! (`handle_*`) and drained of what to do (`poll_output`). Sessions end with their connection in this release, and the
//! CONNACK says so; what a later, stored session needs (the downlink cursor) is kept here already.

mod close_reason;
mod config;
pub mod connect;
mod inflight;
mod keep_alive;
mod machine;
mod problem;
mod subscriptions;
mod topic_alias;

pub use close_reason::CloseReason;
pub use config::Config;
pub use machine::{Admission, Delivered, Output, Session};
pub use problem::Problem;
