//! Dead letters over HTTP: looked at, replayed, dropped. Conditions are query parameters, as those of `jetway dlq`.
//!
//! One request reads at most `limit` dead letters that match; its answer says behind which one the next request goes on.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::http::Admin;
use crate::dlq::{Action, Error, Filter, described};
use crate::telemetry;

/// Dead letters of one request, unless it says otherwise.
const LIMIT: usize = 100;
/// Whatever it says.
const LIMIT_MAX: usize = 10_000;

/// A request as its query says it.
struct Request {
    filter: Filter,
    after: u64,
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
            Error::Unreplayable(_) => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

fn json_body(body: &Value) -> impl IntoResponse + use<> {
    let text = format!("{body}\n");
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// The routes under `/dlq`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/dlq", get(list).delete(drop_all))
        .route("/dlq/{id}", get(show).delete(drop_one))
        .route("/dlq/replay", post(replay))
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
                "after" => request.after = value.parse().map_err(|_e| wrong("a number"))?,
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

async fn list(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let request = Request::read(query.as_deref(), false)?;
    let mut walk = admin.shelf.walk(request.filter, request.after).await?;
    let mut letters = Vec::new();
    while letters.len() < request.limit {
        let Some((letter, _)) = walk.next().await? else {
            return Ok(json_body(&json!({ "dead_letters": letters, "next": null })));
        };
        letters.push(letter);
    }
    let next = letters.last().map(|letter| letter.id);
    Ok(json_body(&json!({ "dead_letters": letters, "next": next })))
}

async fn show(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
) -> Result<impl IntoResponse, Refused> {
    let (letter, stored) = admin.shelf.at(id).await?;
    Ok(json_body(&described(&letter, &stored)))
}

async fn drop_one(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<u64>,
) -> Result<impl IntoResponse, Refused> {
    let (letter, stored) = admin.shelf.at(id).await?;
    admin.shelf.act(Action::Drop, &stored).await?;
    Ok(json_body(&json!({ "dropped": [letter.id] })))
}

async fn drop_all(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    act(&admin, query.as_deref(), Action::Drop).await
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
    let request = Request::read(query, true)?;
    let mut walk = admin.shelf.walk(request.filter, request.after).await?;
    let (mut done, mut failed, mut next) = (Vec::new(), Vec::new(), None);
    while let Some((letter, stored)) = walk.next().await? {
        let outcome = match (request.dry_run, action) {
            (false, _) => admin
                .shelf
                .act(action, &stored)
                .await
                .map_err(|error| error.to_string()),
            (true, Action::Replay) => letter.unreplayable.map_or(Ok(()), Err),
            (true, Action::Drop) => Ok(()),
        };
        match outcome {
            Ok(()) => done.push(letter.id),
            Err(error) => failed.push(json!({ "id": letter.id, "error": error })),
        }
        if done.len() + failed.len() >= request.limit {
            next = Some(letter.id);
            break;
        }
    }
    let word = match action {
        Action::Replay => "replayed",
        Action::Drop => "dropped",
    };
    let dry_run = request.dry_run;
    Ok(json_body(
        &json!({ word: done, "failed": failed, "next": next, "dry_run": dry_run }),
    ))
}
