//! `jetway device`: devices added, shown, changed, removed, listed, imported, exported.
//!
//! It works on the database, and tells gateways over NATS what was changed, if it is told where that is. `place` is where the
//! database and NATS are, also for other commands about the catalogue.

mod bulk;
mod change;
mod command;
mod list;
mod new;
mod place;
mod show;

pub use command::{Args, run};
pub(super) use place::{Place, device};
