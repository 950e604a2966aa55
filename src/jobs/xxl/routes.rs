//! The executor's HTTP paths. Every answer is 200 with a code of its own in the body, as the admin expects it.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::executor::Executor;
use super::protocol::{Answer, TOKEN};

/// Answers an admin that knows `token` until `stop`; an empty one lets everybody in.
pub async fn serve(
    executor: Executor,
    token: String,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let admitted = middleware::from_fn_with_state(token, admit);
    let router = Router::new()
        .route("/beat", post(async || Answer::ok()))
        .route("/idleBeat", post(idle_beat))
        .route("/run", post(run))
        .route("/kill", post(kill))
        .route("/log", post(log))
        .fallback(async || {
            Answer::failed("unknown path, expected beat, idleBeat, run, kill or log")
        })
        .layer(admitted)
        .with_state(executor);
    let serve = axum::serve(listener, router).into_future();
    if let Some(Err(error)) = stop.run_until_cancelled(serve).await {
        tracing::error!(%error, "port of the executor failed");
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        // Texts and numbers always serialise.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let json = [(header::CONTENT_TYPE, "application/json;charset=UTF-8")];
        (StatusCode::OK, json, body).into_response()
    }
}

async fn admit(State(token): State<String>, request: Request, next: Next) -> Response {
    let given = request.headers().get(TOKEN);
    let given = given.map_or(&[][..], |given| given.as_bytes());
    match token.is_empty() || bool::from(given.ct_eq(token.as_bytes())) {
        true => next.run(request).await,
        false => Answer::failed("the access token is wrong").into_response(),
    }
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| Answer::failed(format!("request body: {error}")))
}

async fn run(State(executor): State<Executor>, body: Bytes) -> Result<Answer, Answer> {
    Ok(executor.trigger(read(&body)?).await)
}

async fn idle_beat(State(executor): State<Executor>, body: Bytes) -> Result<Answer, Answer> {
    Ok(executor.idle_beat(&read(&body)?))
}

async fn kill(State(executor): State<Executor>, body: Bytes) -> Result<Answer, Answer> {
    Ok(executor.kill(&read(&body)?))
}

async fn log(State(executor): State<Executor>, body: Bytes) -> Result<Answer, Answer> {
    Ok(executor.log(&read(&body)?).await)
}
