//! Jobs: work that is done now and then, by one node at a time, whoever asks for it.
//!
//! The command line, the operator's HTTP port, the scheduler here and XXL-JOB run the same jobs by the same names. `runner` takes the
//! lock of a job in the database and does its work under a limit; `store` keeps locks, runs and what they said; `scheduler` runs
//! jobs again and again; `xxl` is the executor that an XXL-JOB admin calls; `reports` are the jobs that there are.
//!
//! Invariant: a job is run by one node at a time. A node that is gone leaves it to another after the lease.

mod config;
mod error;
mod job;
mod metrics;
pub mod reports;
mod run;
mod runner;
pub mod scheduler;
mod statement;
mod store;
pub mod xxl;

pub use config::Config;
pub use error::Error;
pub use job::{Context, Job, Registry, Work};
pub use metrics::Metrics;
pub use run::{Cause, Ended, Line, LogId, Outcome, PARAMS_BYTES_MAX, Request, Run};
pub use runner::{Jobs, Start, Started};
pub use store::Store;
