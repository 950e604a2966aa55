//! Answers in JSON, and those to requests that cannot be done.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// The answer to a request that cannot be done: `{"error": …}`.
pub(super) struct Refused(pub(super) StatusCode, pub(super) String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.1 });
        (self.0, json_body(&body)).into_response()
    }
}

/// A body, with its type.
pub(super) fn json_body(body: &Value) -> impl IntoResponse + use<> {
    let text = format!("{body}\n");
    ([(header::CONTENT_TYPE, "application/json")], text)
}
