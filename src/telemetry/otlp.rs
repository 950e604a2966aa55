//! Spans for an OTLP collector: recorded once they are over, with their trace context, and sent in batches.
//!
//! Switched off, a span costs a branch. Switched on, it is left in a bounded queue: nobody waits for the collector, what has no
//! room or is not taken is dropped and counted, and nothing is sent twice. Whether a trace is sampled follows from its flag and
//! its id alone, so all nodes and all spans of a trace agree.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::random_u64;

/// The most spans of one request.
const BATCH_MAX: usize = 512;

/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// The attribute that says that what the span is about failed, and how: a word of a fixed set.
pub const ERROR: &str = "error.type";

/// Where spans go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The collector's OTLP/HTTP address, such as `http://127.0.0.1:4318`; spans go to `/v1/traces` under it. None: no spans.
    pub otlp_endpoint: Option<String>,
    /// What the collector shows as the service.
    pub service_name: String,
    /// The share of all traces that is sampled, 0 to 1. What a device says is not to be sampled never is.
    pub sample_ratio: f64,
    /// How many spans may wait for the collector; what comes when it is full is dropped.
    pub queue_max: usize,
    /// How long the collector may take for a batch, in milliseconds.
    pub export_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            service_name: "jetway".to_owned(),
            sample_ratio: 1.0,
            queue_max: 8_192,
            export_timeout_ms: 5_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        // The path of spans is put behind it, so nothing may be there already that ends a path.
        let is_address = |url: &String| {
            url.strip_prefix("http://")
                .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
                && !url.contains(['?', '#', ' '])
        };
        if let Some(url) = self.otlp_endpoint.as_ref().filter(|url| !is_address(url)) {
            faults.push(format!(
                "otlp_endpoint: expected http://HOST:PORT, found {url:?}"
            ));
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            let found = self.sample_ratio;
            faults.push(format!("sample_ratio: expected 0 to 1, found {found}"));
        }
        if !(1..=1_000_000).contains(&self.queue_max) {
            let found = self.queue_max;
            faults.push(format!("queue_max: expected 1 to 1000000, found {found}"));
        }
        if self.export_timeout_ms == 0 {
            faults.push("export_timeout_ms: expected more than 0".to_owned());
        }
        faults
    }
}

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.otlp_endpoint {endpoint:?}: {reason}")]
pub struct Error {
    endpoint: String,
    reason: String,
}

/// Where spans are left; cheap to clone. The default takes none.
#[derive(Debug, Clone, Default)]
pub struct Spans(Option<Arc<Sampler>>);

#[derive(Debug)]
struct Sampler {
    ratio: f64,
    queue: mpsc::Sender<SpanData>,
    dropped: Counter,
    scope: InstrumentationScope,
}

/// Sends what is left in [`Spans`].
#[derive(Debug)]
pub struct Exporter {
    queue: mpsc::Receiver<SpanData>,
    exporter: SpanExporter,
    timeout: Duration,
    /// Holds a sender, so that the queue does not end before it is closed.
    sampler: Arc<Sampler>,
    exported: Counter,
    /// Whether the last batch was not taken, which is logged once.
    failed: bool,
}

/// Where spans are left, and what sends them; none without an endpoint.
///
/// # Errors
/// The endpoint cannot be used.
pub fn start(config: &Config) -> Result<Option<(Spans, Exporter)>, Error> {
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok(None);
    };
    let timeout = Duration::from_millis(config.export_timeout_ms);
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(timeout)
        .build()
        .map_err(|error| Error {
            endpoint: endpoint.clone(),
            reason: error.to_string(),
        })?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name(config.service_name.clone());
    exporter.set_resource(&resource.with_attribute(version).build());
    let (sender, queue) = mpsc::channel(config.queue_max);
    let sampler = Arc::new(Sampler {
        ratio: config.sample_ratio,
        queue: sender,
        dropped: Counter::default(),
        scope: InstrumentationScope::builder("jetway").build(),
    });
    let exporter = Exporter {
        queue,
        exporter,
        timeout,
        sampler: Arc::clone(&sampler),
        exported: Counter::default(),
        failed: false,
    };
    Ok(Some((Spans(Some(sampler)), exporter)))
}

impl Spans {
    /// Whether a trace that begins here is to be sampled; what is not recorded at all is left to others.
    #[must_use]
    pub fn samples(&self, trace_id: u128) -> bool {
        self.0
            .as_ref()
            .is_none_or(|sampler| sampler.samples(trace_id))
    }

    /// Whether any span is kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a span of this trace context would be kept: saves the work for its attributes.
    #[must_use]
    pub fn keeps(&self, traceparent: &str) -> bool {
        self.0.is_some() && self.sampled(traceparent).is_some()
    }

    /// Records that something was done with a message, below the span that its trace context names.
    ///
    /// `start` and `end` are times of [`super::now`]; attribute [`ERROR`] marks a failure. Nothing is recorded of a trace context that
    /// is invalid or not sampled.
    pub fn record(
        &self,
        name: &'static str,
        traceparent: &str,
        start: Duration,
        end: Duration,
        attributes: &[(&'static str, &str)],
    ) {
        if let Some((sampler, context)) = self.sampled(traceparent) {
            let own = SpanId::from_bytes(random_u64().max(1).to_be_bytes());
            let ids = (context.trace, own, context.span);
            sampler.send(span(sampler, ids, name, (start, end), attributes));
        }
    }

    /// As [`Self::record`], of the span that the trace context itself names. `parent`, 16 hexadecimal digits, is the span above it;
    /// none: the trace begins here.
    pub fn record_own(
        &self,
        name: &'static str,
        traceparent: &str,
        parent: Option<&str>,
        (start, end): (Duration, Duration),
        attributes: &[(&'static str, &str)],
    ) {
        if let Some((sampler, context)) = self.sampled(traceparent) {
            let parent = parent.and_then(|digits| SpanId::from_hex(digits).ok());
            let parent = parent.unwrap_or(SpanId::INVALID);
            let ids = (context.trace, context.span, parent);
            sampler.send(span(sampler, ids, name, (start, end), attributes));
        }
    }

    fn sampled(&self, traceparent: &str) -> Option<(&Sampler, Context)> {
        let sampler = self.0.as_deref()?;
        let context = Context::parse(traceparent)?;
        let trace_id = u128::from_be_bytes(context.trace.to_bytes());
        sampler.samples(trace_id).then_some((sampler, context))
    }
}

/// What a sampled trace context says: the trace, and the span that it was sent from.
#[derive(Debug, Clone, Copy)]
struct Context {
    trace: TraceId,
    span: SpanId,
}

impl Context {
    /// Reads `00-<32 hexadecimal digits>-<16>-<flags>`; none if it is invalid or not sampled.
    fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let mut next = |length| parts.next().filter(|part| part.len() == length);
        let (_, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
        let trace = TraceId::from_hex(trace).ok()?;
        let span = SpanId::from_hex(span).ok()?;
        let is_valid = trace != TraceId::INVALID && span != SpanId::INVALID;
        (is_valid && flags.is_sampled()).then_some(Self { trace, span })
    }
}

impl Sampler {
    /// The id is mixed first, because ids that are made here rise.
    fn samples(&self, trace_id: u128) -> bool {
        let [high, low] = [trace_id >> 64, trace_id & u128::from(u64::MAX)];
        let mut mixed = u64::try_from(high ^ low).unwrap_or_default();
        for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
        }
        let place = u32::try_from(mixed >> 32).unwrap_or_default();
        f64::from(place) < self.ratio * (f64::from(u32::MAX) + 1.0)
    }

    fn send(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            self.dropped.inc();
        }
    }
}

/// The ids are of the trace, the span and its parent; times are since the Unix epoch.
fn span(
    sampler: &Sampler,
    (trace, own, parent): (TraceId, SpanId, SpanId),
    name: &'static str,
    (start, end): (Duration, Duration),
    attributes: &[(&'static str, &str)],
) -> SpanData {
    let error = attributes.iter().find(|(name, _)| *name == ERROR);
    let attributes = attributes
        .iter()
        .map(|(name, value)| KeyValue::new(*name, (*value).to_owned()));
    SpanData {
        span_context: SpanContext::new(trace, own, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent,
        parent_span_is_remote: parent != SpanId::INVALID,
        span_kind: SpanKind::Consumer,
        name: name.into(),
        start_time: UNIX_EPOCH + start,
        // A wall clock may have been set back in between.
        end_time: UNIX_EPOCH + end.max(start),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, |(_, error)| {
            Status::error((*error).to_owned())
        }),
        instrumentation_scope: sampler.scope.clone(),
    }
}

impl Exporter {
    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "spans_exported",
            "Spans that the collector took",
            self.exported.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans that had no room, or that the collector did not take",
            self.sampler.dropped.clone(),
        );
    }

    /// Sends until `stop`, and then what is left, as far as the collector takes it within one timeout.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        while stop
            .run_until_cancelled(self.fill(&mut batch))
            .await
            .is_some()
        {
            self.export(std::mem::take(&mut batch)).await;
        }
        self.queue.close();
        let limit = self.timeout;
        let left = async {
            while !batch.is_empty() || self.queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
                self.export(std::mem::take(&mut batch)).await;
            }
        };
        if timeout(limit, left).await.is_err() {
            tracing::warn!("spans are left that the collector did not take");
        }
    }

    /// Returns when the batch is full, or some time after there was something for it.
    async fn fill(&mut self, batch: &mut Vec<SpanData>) {
        self.queue.recv_many(batch, BATCH_MAX).await;
        let more = async {
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                self.queue.recv_many(batch, room).await;
            }
        };
        // What came in time is in the batch.
        timeout(LINGER, more).await.ok();
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let count = u64::try_from(batch.len()).unwrap_or_default();
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.exported.inc_by(count);
                self.failed = false;
            }
            Err(error) => {
                self.sampler.dropped.inc_by(count);
                if !self.failed {
                    tracing::warn!(%error, "the collector takes no spans");
                }
                self.failed = true;
            }
        }
    }
}

#[cfg(test)]
#[path = "otlp_tests.rs"]
mod tests;
