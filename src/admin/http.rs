//! The HTTP routes and what they answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{catalogue, dlq, jobs, outbox, protection, rules, schemas};
use crate::catalogue::Catalogue;
use crate::dlq::Shelf;
use crate::health::{Health, Readiness};
use crate::jetstream::Link;
use crate::jobs::Jobs;
use crate::outbox::store::Store;

/// What the HTTP port tells about.
pub struct Admin {
    /// Whether this node can store.
    pub readiness: Readiness,
    /// How the durables are.
    pub health: Health,
    /// Dead letters.
    pub shelf: Shelf,
    /// The outbox, if this node empties it.
    pub outbox: Option<Store>,
    /// Jobs, if this node runs them.
    pub jobs: Option<Jobs>,
    /// The catalogue of devices, if they connect to this node and prove who they are.
    pub catalogue: Option<Catalogue>,
    /// The way to all nodes.
    pub link: Link,
    /// Every metric.
    pub registry: Registry,
}

impl Admin {
    /// Answers requests until `shutdown`; a client in the middle of its request does not hold that up.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let router = Router::new()
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/health/mq", get(health))
            .route("/metrics", get(metrics))
            .route("/schemas", get(schemas::list))
            .route("/schemas/{event}/{version}", get(schemas::one))
            .merge(dlq::routes())
            .merge(outbox::routes())
            .merge(jobs::routes())
            .merge(catalogue::routes())
            .merge(rules::routes())
            .merge(protection::routes())
            .with_state(Arc::new(self));
        let serve = axum::serve(listener, router).into_future();
        if let Some(Err(error)) = shutdown.run_until_cancelled(serve).await {
            tracing::error!(%error, "HTTP port failed");
        }
    }
}

async fn readyz(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let obstacles = admin.readiness.obstacles().await;
    match obstacles.is_empty() {
        true => (StatusCode::OK, "ready\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, obstacles.join("\n") + "\n"),
    }
}

async fn health(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let report = admin.health.report();
    let status = match report.ok {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    // Texts and numbers always serialise.
    let body = serde_json::to_vec(&report).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body)
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
