//! `jetway dev`: a whole gateway on one machine, with its own nats-server and, for the device profile, database and demo devices.

mod command;
mod demo;
pub mod nats_server;
mod page;
mod seed;

pub(super) use command::{Args, run};
