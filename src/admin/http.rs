//! The HTTP routes and what they answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::dlq;
use crate::dlq::Shelf;
use crate::jetstream::provision::{self, Stream};
use crate::jetstream::{Link, Publisher};

/// For how long a shard may be without an answer before the node is not ready, in seconds.
const STALL_SECONDS_MAX: i64 = 5;

/// How long readiness waits for JetStream: a prober gives up soon, and a node that cannot ask is not ready.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// What the HTTP port tells about.
pub struct Admin {
    /// The NATS connection.
    pub link: Link,
    /// The streams that must exist.
    pub streams: Vec<Stream>,
    /// The uplink's publisher; none without devices.
    pub uplink: Option<Publisher>,
    /// Set when the drain begins.
    pub draining: Arc<AtomicBool>,
    /// Dead letters.
    pub shelf: Shelf,
    /// Every metric.
    pub registry: Registry,
}

impl Admin {
    /// Answers requests until `shutdown`; a client in the middle of its request does not hold that up.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let router = Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .merge(dlq::routes())
            .with_state(Arc::new(self));
        let serve = axum::serve(listener, router).into_future();
        if let Some(Err(error)) = shutdown.run_until_cancelled(serve).await {
            tracing::error!(%error, "HTTP port failed");
        }
    }

    /// Everything that keeps this node from storing; empty when it is ready.
    async fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            obstacles.push("draining".to_owned());
        }
        if !self.link.is_connected() {
            obstacles.push("NATS is not connected".to_owned());
            return obstacles;
        }
        let missing = provision::missing(&self.link, &self.streams);
        match timeout(ANSWER_WITHIN, missing).await {
            Ok(Ok(missing)) => obstacles.extend(
                missing
                    .iter()
                    .map(|name| format!("stream {name} is missing")),
            ),
            Ok(Err(error)) => obstacles.push(error.to_string()),
            Err(_) => obstacles.push("JetStream does not answer".to_owned()),
        }
        let uplink = self.uplink.as_ref();
        let stalled = uplink.map_or(0, Publisher::stalled_seconds);
        if stalled >= STALL_SECONDS_MAX {
            obstacles.push(format!(
                "the uplink stream has not answered for {stalled} s"
            ));
        }
        obstacles
    }
}

async fn readyz(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let obstacles = admin.obstacles().await;
    match obstacles.is_empty() {
        true => (StatusCode::OK, "ready\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, obstacles.join("\n") + "\n"),
    }
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut body = String::new();
    match prometheus_client::encoding::text::encode(&mut body, &admin.registry) {
        Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, OPEN_METRICS)], body),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain")],
            error.to_string(),
        ),
    }
}
