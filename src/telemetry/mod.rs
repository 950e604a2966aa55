//! Logs, metrics and traces: the tracing setup, the metric registry, the wall clock, spans for a collector.
//!
//! No metric label is ever taken from device input: labels are enums with a fixed set of values (G38).

pub mod otlp;
mod setup;

pub use setup::{Config, Format, init, now, now_unix_ms, random_u64, register_process, registry};
