//! Dead letters over HTTP: looked at, replayed, dropped. Conditions are query parameters, as those of `jetway dlq`.
//!
//! One request reads at most `limit` dead letters that match; its answer says behind which one the next request goes on.

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
use crate::dlq::{Action, Error, Filter, described};

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

/// The routes under `/dlq`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/dlq", get(list).delete(drop_all))
        .route("/dlq/{id}", get(show).delete(drop_one))
        .route("/dlq/replay", post(replay))
}

async fn list(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let request = Request::<Filter>::read(query.as_deref(), false)?;
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
    let request = Request::<Filter>::read(query, true)?;
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
