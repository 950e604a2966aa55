//! Blocks and refusals of all nodes over HTTP: who is blocked, blocking and lifting, what a device was refused.
//!
//! `kind` is `address`, `username`, `client_id` or `device`; `value` which one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::json;

use super::answer::{Refused, json_body};
use super::http::Admin;
use crate::protection::{Answer, Ask, Kind, ask};

/// The routes `/bans` and `/refusals/{product}/{device}`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/bans", get(list).post(ban).delete(lift))
        .route("/refusals/{product}/{device}", get(refusals))
}

async fn nodes(admin: &Admin, question: &Ask) -> Result<Vec<Answer>, Refused> {
    let answers = ask(&admin.link, question).await;
    answers.map_err(|error| Refused(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

async fn list(State(admin): State<Arc<Admin>>) -> Result<impl IntoResponse, Refused> {
    let nodes = nodes(&admin, &Ask::Bans).await?;
    let nodes = nodes
        .iter()
        .map(|answer| json!({ "node": answer.node, "bans": answer.bans }));
    Ok(json_body(&json!({ "nodes": nodes.collect::<Vec<_>>() })))
}

async fn ban(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let Whom {
        kind,
        value,
        seconds,
    } = Whom::read(query.as_deref())?;
    let seconds = seconds.ok_or_else(|| bad("seconds: expected for how long"))?;
    let question = Ask::Ban {
        kind,
        value,
        seconds,
    };
    let nodes = nodes(&admin, &question).await?.len();
    Ok(json_body(&json!({ "nodes": nodes })))
}

async fn lift(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let Whom { kind, value, .. } = Whom::read(query.as_deref())?;
    let nodes = nodes(&admin, &Ask::Lift { kind, value }).await?;
    match nodes.iter().any(|answer| answer.lifted) {
        true => Ok(json_body(&json!({ "nodes": nodes.len() }))),
        false => Err(Refused(StatusCode::NOT_FOUND, "not blocked".to_owned())),
    }
}

async fn refusals(
    State(admin): State<Arc<Admin>>,
    Path((product, device)): Path<(String, String)>,
) -> Result<impl IntoResponse, Refused> {
    let nodes = nodes(&admin, &Ask::Refusals { product, device }).await?;
    let nodes = nodes.iter().filter(|answer| !answer.refusals.is_empty());
    let nodes = nodes.map(|answer| json!({ "node": answer.node, "refusals": answer.refusals }));
    Ok(json_body(&json!({ "nodes": nodes.collect::<Vec<_>>() })))
}

/// Who is meant.
struct Whom {
    kind: Kind,
    value: String,
    seconds: Option<u64>,
}

impl Whom {
    fn read(query: Option<&str>) -> Result<Self, Refused> {
        let (mut kind, mut whom, mut seconds) = (None, None, None);
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "kind" => kind = Some(value.parse().map_err(bad)?),
                "value" => whom = Some(value.into_owned()),
                "seconds" => {
                    let wrong = |_e| bad("seconds: expected a number");
                    seconds = Some(value.parse().map_err(wrong)?);
                }
                _ => return Err(bad("expected kind, value, seconds")),
            }
        }
        Ok(Self {
            kind: kind.ok_or_else(|| bad("kind: expected one"))?,
            value: whom.ok_or_else(|| bad("value: expected one"))?,
            seconds,
        })
    }
}

fn bad(expected: &str) -> Refused {
    Refused(StatusCode::BAD_REQUEST, expected.to_owned())
}
