//! Whether all goes well, seen from outside of the flows: streams, durables, dead letters, nodes; and who is told if not.
//!
//! The `watcher` looks every few seconds. What it finds are figures for `/metrics`, the rows of `/health/mq`, and
//! alarms, which a `notifier` for each receiver tells. None of it stands in the way of a message.

mod alarm;
mod conditions;
mod config;
mod dead_letters;
mod history;
mod measured;
mod metrics;
mod nodes;
mod notifier;
mod readiness;
mod receiver;
mod report;
mod samples;
mod service;
mod turn;
mod watcher;

pub use config::Config;
pub use readiness::Readiness;
pub use report::{Report, Row};
pub use service::{Health, Parts};
