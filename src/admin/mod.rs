//! The operator's HTTP port: `/livez`, `/readyz`, `/health/mq`, `/metrics`, `/dlq`, `/outbox`, `/jobs`, `/schemas`,
//! `/products`, `/devices`, `/bans`, `/refusals`.
//!
//! Liveness says that the process runs. Readiness follows the real ability to store (G38): NATS connected, all streams
//! there, no shard without an answer, not draining. `/health/mq` tells of the services behind the streams, and
//! nothing here depends on it.

mod answer;
mod catalogue;
mod dlq;
mod http;
mod jobs;
mod outbox;
mod protection;
mod request;
mod rules;
mod schemas;

pub use http::Admin;
