//! Rows of the outbox over HTTP: looked at, replayed, purged. Conditions are query parameters, as those of `jetway outbox`.
//!
//! A node that does not empty the outbox knows nothing of it: 404.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;

use super::answer::{Refused, json_body};
use super::http::Admin;
use super::request::Request;
use crate::outbox::store::{Action, Error, Filter, Store};

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Unknown(_) => StatusCode::NOT_FOUND,
            Error::Schema(_) | Error::Database(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

/// The routes under `/outbox`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/outbox", get(list).delete(purge))
        .route("/outbox/stats", get(stats))
        .route("/outbox/replay", post(replay))
        .route("/outbox/{id}", get(show))
}

fn store(admin: &Admin) -> Result<&Store, Refused> {
    let elsewhere = || {
        let words = "this node does not have the role outbox";
        Refused(StatusCode::NOT_FOUND, words.to_owned())
    };
    admin.outbox.as_ref().ok_or_else(elsewhere)
}

async fn list(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let request = Request::<Filter>::read(query.as_deref(), false)?;
    let rows = {
        let after = i64::try_from(request.after).unwrap_or(i64::MAX);
        store(&admin)?.list(&request.filter, after, request.limit)
    };
    let rows = rows.await?;
    let next = rows.last().filter(|_| rows.len() >= request.limit);
    let next = next.map(|row| row.id);
    Ok(json_body(&json!({ "rows": rows, "next": next })))
}

async fn show(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<i64>,
) -> Result<impl IntoResponse, Refused> {
    let shown = store(&admin)?.show(id).await?;
    Ok(json_body(&shown.described()))
}

async fn stats(State(admin): State<Arc<Admin>>) -> Result<impl IntoResponse, Refused> {
    let stats = store(&admin)?.stats().await?;
    Ok(json_body(&json!(stats)))
}

async fn purge(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    act(&admin, query.as_deref(), Action::Purge).await
}

async fn replay(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    act(&admin, query.as_deref(), Action::Replay).await
}

async fn act(
    admin: &Admin,
    query: Option<&str>,
    action: Action,
) -> Result<impl IntoResponse + use<>, Refused> {
    let Request {
        filter,
        after,
        limit,
        dry_run,
    } = Request::<Filter>::read(query, true)?;
    if after > 0 {
        let words = "after: expected in lists only; what is changed goes on by itself";
        return Err(Refused(StatusCode::BAD_REQUEST, words.to_owned()));
    }
    let store = store(admin)?;
    let rows = match dry_run {
        true => store.meant(action, &filter, limit).await?,
        false => store.act(action, &filter, limit).await?,
    };
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let more = ids.len() >= limit;
    let word = action.done();
    Ok(json_body(
        &json!({ word: ids, "more": more, "dry_run": dry_run }),
    ))
}
