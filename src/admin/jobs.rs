//! Jobs over HTTP: what there is, one begun, and what became of it. The body of a POST is the job's parameters.
//!
//! A run goes on when its request is answered; `/jobs/runs/{id}` tells how it is. A node that does not run jobs knows nothing of
//! them: 404.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;

use super::answer::{Refused, json_body};
use super::http::Admin;
use crate::jobs::{Cause, Error, Jobs, PARAMS_BYTES_MAX, Request, Start};

/// Runs of one answer, unless the request says otherwise, and whatever it says.
const LIMIT: i64 = 100;
const LIMIT_MAX: i64 = 1_000;
/// Lines of one answer.
const LINES: i64 = 1_000;

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Unknown(..) => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.in_words())
    }
}

/// The routes under `/jobs`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/jobs", get(list))
        .route("/jobs/{name}", post(start))
        .route("/jobs/runs", get(runs))
        .route("/jobs/runs/{id}", get(run))
}

fn jobs(admin: &Admin) -> Result<&Jobs, Refused> {
    let elsewhere = || {
        let words = "this node does not have the role jobs";
        Refused(StatusCode::NOT_FOUND, words.to_owned())
    };
    admin.jobs.as_ref().ok_or_else(elsewhere)
}

async fn list(State(admin): State<Arc<Admin>>) -> Result<impl IntoResponse, Refused> {
    let jobs = jobs(&admin)?;
    let mut all = Vec::new();
    for job in jobs.registry.iter() {
        let last = jobs.store.runs(Some(job.name), 1).await?.pop();
        all.push(json!({ "name": job.name, "about": job.about,
            "limit_seconds": job.limit.as_secs(), "last_run": last }));
    }
    Ok(json_body(&json!({ "jobs": all })))
}

async fn start(
    State(admin): State<Arc<Admin>>,
    Path(name): Path<String>,
    params: String,
) -> Result<impl IntoResponse, Refused> {
    if params.len() > PARAMS_BYTES_MAX {
        let words = format!("parameters: expected {PARAMS_BYTES_MAX} bytes at most");
        return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    let jobs = jobs(&admin)?;
    let request = Request::new(&name, &params, Cause::Http);
    match jobs.start(request).await? {
        Start::Started(started) => {
            let id = started.id().to_owned();
            jobs.spawn(started);
            Ok((StatusCode::ACCEPTED, json_body(&json!({ "run": id }))))
        }
        Start::Busy { run } => {
            let words = format!("the job is running: {run}");
            Err(Refused(StatusCode::CONFLICT, words))
        }
        Start::NotDue { .. } => Err(Refused(StatusCode::CONFLICT, "not due".to_owned())),
    }
}

async fn runs(
    State(admin): State<Arc<Admin>>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Refused> {
    let (mut name, mut limit) = (None, LIMIT);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let bad = |words: String| Refused(StatusCode::BAD_REQUEST, words);
        match &*key {
            "name" => name = Some(value.into_owned()),
            "limit" => {
                let expected = |_e| bad(format!("limit: found {value:?}, expected a number"));
                limit = value.parse::<i64>().map_err(expected)?.clamp(1, LIMIT_MAX);
            }
            _ => return Err(bad(format!("{key}: unknown, expected name or limit"))),
        }
    }
    let runs = jobs(&admin)?.store.runs(name.as_deref(), limit).await?;
    Ok(json_body(&json!({ "runs": runs })))
}

async fn run(
    State(admin): State<Arc<Admin>>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, Refused> {
    let store = &jobs(&admin)?.store;
    let Some(run) = store.run(&id).await? else {
        let words = format!("no run {id:?} is kept");
        return Err(Refused(StatusCode::NOT_FOUND, words));
    };
    let lines = store.lines(&id, 1, LINES).await?;
    Ok(json_body(&json!({ "run": run, "lines": lines })))
}
