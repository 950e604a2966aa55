//! The executor that an XXL-JOB admin (2.4 to 3.4) calls: it triggers, kills and watches runs, and is told what became of them.
//!
//! `executor` keeps a lane for each XXL-JOB job, with its block strategies; `routes` are its HTTP paths; `admin` registers the executor
//! and tells results. Only bean jobs run here: no source text of the admin is ever executed. Shards of a broadcast are not told
//! apart, as a job is run by one node at a time.
//!
//! Invariant: what was accepted is kept in the database first, so that its result is told whatever happens to this node.

mod admin;
mod executor;
mod protocol;
mod routes;

pub use admin::Admin;
pub use executor::Executor;
pub use routes::serve;
