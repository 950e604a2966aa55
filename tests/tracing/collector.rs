//! A collector: takes spans over OTLP/HTTP, and keeps what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use jetway::tasks::{OnExit, Tasks};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::eventually;

/// A span with what was said about who sent it.
#[derive(Debug, Clone)]
pub(crate) struct Collected {
    pub(crate) service: String,
    pub(crate) span: Span,
}

impl Collected {
    /// An attribute of the span; empty when it has none of that name.
    pub(crate) fn attribute(&self, name: &str) -> String {
        attribute(&self.span.attributes, name)
    }

    /// `00-<trace id>-<span id>-01`
    pub(crate) fn traceparent(&self) -> String {
        let [trace, span] = [&self.span.trace_id, &self.span.span_id].map(|id| hex(id));
        format!("00-{trace}-{span}-01")
    }

    /// The trace, in hexadecimal digits.
    pub(crate) fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// The span above it, in hexadecimal digits; empty if the trace begins with it.
    pub(crate) fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(all: &[KeyValue], name: &str) -> String {
    let found = all.iter().find(|attribute| attribute.key == name);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    match value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

type Spans = Arc<Mutex<Vec<Collected>>>;

/// Listens until it is dropped.
pub(crate) struct Collector {
    address: SocketAddr,
    spans: Spans,
    stop: CancellationToken,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Collector {
    /// On any free port.
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let spans = Spans::default();
        let stop = CancellationToken::new();
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(Arc::clone(&spans));
        let tasks = Tasks::new(stop.clone());
        let stopped = stop.clone();
        tasks.spawn("collector", OnExit::Log, async move {
            let serve = axum::serve(listener, router).into_future();
            stopped.run_until_cancelled(serve).await;
        });
        Self {
            address,
            spans,
            stop,
        }
    }

    /// What `JETWAY_TELEMETRY_OTLP_ENDPOINT` is for it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far whose attribute has this value.
    pub(crate) fn spans(&self, name: &str, value: &str) -> Vec<Collected> {
        let spans = self.spans.lock().unwrap();
        let of_it = spans.iter().filter(|span| span.attribute(name) == value);
        of_it.cloned().collect()
    }

    /// Waits until there is such a span of this name.
    pub(crate) async fn span(&self, called: &str, name: &str, value: &str) -> Collected {
        eventually(
            &format!("a span {called} with {name} {value}"),
            async || {
                let spans = self.spans(name, value);
                let found = spans.iter().find(|span| span.span.name == called);
                found.cloned().ok_or_else(|| format!("{spans:?}"))
            },
        )
        .await
    }
}

async fn take(
    State(spans): State<Spans>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, StatusCode> {
    let media_type = headers.get("content-type").map(|value| value.as_bytes());
    if media_type != Some(b"application/x-protobuf") {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let request =
        ExportTraceServiceRequest::decode(body).map_err(|_malformed| StatusCode::BAD_REQUEST)?;
    let mut spans = spans.lock().unwrap();
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.unwrap_or_default();
        let service = attribute(&resource.attributes, "service.name");
        let all = of_resource.scope_spans.into_iter().flat_map(|of| of.spans);
        spans.extend(all.map(|span| Collected {
            service: service.clone(),
            span,
        }));
    }
    Ok(Vec::new())
}
