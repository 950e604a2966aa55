//! The operator's HTTP port: `/livez`, `/readyz`, `/metrics`, `/dlq`.
//!
//! Liveness says that the process runs. Readiness follows the real ability to store (G38): NATS connected, all streams
//! there, no shard without an answer, not draining.

mod dlq;
mod http;

pub use http::Admin;
