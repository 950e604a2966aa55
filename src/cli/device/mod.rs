//! `jetway device`: devices added, shown, changed, removed, listed, imported, exported.
//!
//! It works on the database, and tells gateways over NATS what was changed, if it is told where that is.

mod bulk;
mod change;
mod command;
mod list;
mod new;
mod show;

pub use command::{Args, run};
