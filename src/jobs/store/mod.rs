//! Jobs in the database: the locks, the runs with what they said, the results that XXL-JOB has not taken yet.
//!
//! Invariants: one run at most has the lock of a job, by the database's clock; a run ends once; its end, the release of its lock
//! and the result for XXL-JOB are written together.

mod callbacks;
mod lock;
mod runs;
mod tables;

pub(super) use callbacks::Callback;
pub(super) use lock::{Begun, hold};
pub use tables::Store;
