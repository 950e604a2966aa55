//! The command line: one file per subcommand.

mod bans;
mod binding;
mod certificate;
mod check;
mod command;
pub mod dev;
pub mod device;
mod dlq;
mod gps;
mod hash;
mod jobs;
mod outbox;
mod product;
mod run;
mod send;
mod streams;
mod subjects;
mod tail;
mod trace;

pub use command::{Cli, execute};
