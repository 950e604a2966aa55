//! Rows of the outbox over HTTP: looked at, replayed, purged. Conditions are query parameters, as those of `jetway outbox`.
//!
//! A node that does not empty the outbox knows nothing of it: 404.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::http::Admin;
use crate::outbox::store::{Action, Error, Filter, Store};
use crate::telemetry;

/// Rows of one request, unless it says otherwise.
const LIMIT: usize = 100;
/// Whatever it says.
const LIMIT_MAX: usize = 10_000;

/// A request as its query says it.
struct Request {
    filter: Filter,
    after: i64,
    limit: usize,
    dry_run: bool,
}

/// The answer to a request that cannot be done.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.1 });
        (self.0, json_body(&body)).into_response()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Unknown(_) => StatusCode::NOT_FOUND,
            Error::Schema(_) | Error::Database(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

fn json_body(body: &Value) -> impl IntoResponse + use<> {
    let text = format!("{body}\n");
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// The routes under `/outbox`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/outbox", get(list).delete(purge))
        .route("/outbox/stats", get(stats))
        .route("/outbox/replay", post(replay))
        .route("/outbox/{id}", get(show))
}

impl Request {
    /// `changes` if it changes something: then it has to say what, or `all=true`.
    fn read(query: Option<&str>, changes: bool) -> Result<Self, Refused> {
        let bad = |fault: String| Refused(StatusCode::BAD_REQUEST, fault);
        let mut request = Self {
            filter: Filter::default(),
            after: 0,
            limit: LIMIT,
            dry_run: false,
        };
        let mut all = false;
        let now = telemetry::now_unix_ms();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let wrong =
                |expected: &str| bad(format!("{key}: found {value:?}, expected {expected}"));
            match &*key {
                "after" if !changes => {
                    request.after = value.parse().map_err(|_e| wrong("a number"))?;
                }
                "limit" => {
                    let limit = value.parse::<usize>().map_err(|_e| wrong("a number"))?;
                    request.limit = limit.clamp(1, LIMIT_MAX);
                }
                "dry_run" if changes => {
                    request.dry_run = value.parse().map_err(|_e| wrong("true or false"))?;
                }
                "all" if changes => all = value.parse().map_err(|_e| wrong("true or false"))?,
                _ => {
                    let known = request.filter.set(&key, &value, now).map_err(bad)?;
                    if !known {
                        let keys = Filter::KEYS.join(", ");
                        return Err(bad(format!(
                            "{key}: unknown, expected one of {keys}, after, limit, dry_run, all"
                        )));
                    }
                }
            }
        }
        if changes && request.filter.is_empty() && !all {
            return Err(bad("expected a condition, or all=true".to_owned()));
        }
        Ok(request)
    }
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
    let request = Request::read(query.as_deref(), false)?;
    let rows = store(&admin)?.list(&request.filter, request.after, request.limit);
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
        limit,
        dry_run,
        ..
    } = Request::read(query, true)?;
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
