//! The schemas of events: `/schemas` lists them, `/schemas/<event>/<version>` has one, as JSON Schema or protobuf.

use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::schema::{self, PROTO};

const JSON_SCHEMA: &str = "application/schema+json";
/// There is no registered media type for protobuf's language.
const PROTOBUF_TEXT: &str = "text/plain; charset=utf-8";

/// All events and versions, with the paths of their schemas.
pub(super) async fn list() -> impl IntoResponse {
    let schemas = schema::all().iter().map(|schema| {
        let path = format!("/schemas/{}/{}", schema.event, schema.version);
        json!({
            "event": schema.event,
            "version": schema.version,
            "message": schema.message.full_name(),
            "json_schema": path,
            "protobuf": format!("{path}?form=proto"),
        })
    });
    let list = Value::from_iter(schemas).to_string();
    ([(header::CONTENT_TYPE, "application/json")], list)
}

/// One of them: protobuf for `?form=proto`, or where a protobuf type is accepted and no other form is asked for.
pub(super) async fn one(
    Path((event, version)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let mut schemas = schema::all().iter();
    let Some(schema) = schemas.find(|schema| schema.event == event && schema.version == version)
    else {
        let words = "no event of this name and version; /schemas lists all\n";
        return (StatusCode::NOT_FOUND, words).into_response();
    };
    let accept = headers.get(header::ACCEPT);
    let accepts_protobuf = accept
        .and_then(|value| value.to_str().ok())
        .is_some_and(|types| types.contains("proto"));
    let (media_type, text) = match query.as_deref() {
        Some("form=proto") => (PROTOBUF_TEXT, PROTO.to_owned()),
        Some("form=json") => (JSON_SCHEMA, schema.json.to_string()),
        None | Some("") if accepts_protobuf => (PROTOBUF_TEXT, PROTO.to_owned()),
        None | Some("") => (JSON_SCHEMA, schema.json.to_string()),
        Some(_) => {
            let words = "expected form=json or form=proto\n";
            return (StatusCode::BAD_REQUEST, words).into_response();
        }
    };
    ([(header::CONTENT_TYPE, media_type)], text).into_response()
}
