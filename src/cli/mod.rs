//! The command line: one file per subcommand. `place` is where those about the catalogue find it.

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
mod place;
mod product;
mod rule;
mod run;
mod send;
mod streams;
mod subjects;
mod tail;
mod trace;

pub use command::{Cli, execute};
