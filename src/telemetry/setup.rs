//! Logs to stderr, an empty registry of metrics, what the process itself uses, and its one reader of the wall clock.
//!
//! What is logged and counted is said where it happens.

use std::io::IsTerminal as _;
use std::time::{Duration, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// How the process logs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `tracing` filter directives, for example `info` or `jetway=debug,async_nats=warn`.
    pub filter: String,
    /// Line format.
    pub format: Format,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            filter: "info,async_nats=warn,sqlx=warn".to_owned(),
            format: Format::Text,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        match EnvFilter::try_new(&self.filter) {
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("filter: {error}")],
        }
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to stderr; a second call is ignored, so that tests may share a process.
pub fn init(config: &Config) {
    let filter = EnvFilter::try_new(&config.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::registry().with(filter);
    let lines = layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let without_payloads = FilterFn::new(|line| !has_payload(line));
    let started = match config.format {
        Format::Text => {
            let lines = lines.with_target(false).with_filter(without_payloads);
            logs.with(lines).try_init()
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true);
            logs.with(lines.with_filter(without_payloads)).try_init()
        }
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}

/// The NATS client writes whole messages at this level: what is in them is nobody's business who reads logs.
fn has_payload(line: &Metadata<'_>) -> bool {
    line.target().starts_with("async_nats") && *line.level() == Level::TRACE
}

/// The gateway's wall clock, for time stamps that leave the process. Intervals use `Instant`.
#[must_use]
pub fn now() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reader of the wall clock"
    )]
    let now = std::time::SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// [`now`] in Unix milliseconds.
#[must_use]
pub fn now_unix_ms() -> u64 {
    u64::try_from(now().as_millis()).unwrap_or(u64::MAX)
}

/// An empty metric registry; every name in it starts with `jetway_`.
#[must_use]
pub fn registry() -> Registry {
    Registry::with_prefix("jetway")
}

/// 64 bits from the operating system, for ids that are unique across restarts and nodes.
#[must_use]
pub fn random_u64() -> u64 {
    getrandom::u64().expect("the operating system has randomness by the time a service starts")
}

/// Publishes what the process itself uses.
pub fn register_process(registry: &mut Registry) {
    registry.register_collector(Box::new(Process));
}

#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        // The statistics are a snapshot, taken anew by advancing the epoch.
        let heap = tikv_jemalloc_ctl::epoch::advance()
            .and_then(|_| tikv_jemalloc_ctl::stats::allocated::read())
            .unwrap_or(0);
        let heap = ConstGauge::new(i64::try_from(heap).unwrap_or(i64::MAX));
        let metric = encoder.encode_descriptor(
            "process_heap_bytes",
            "Bytes that the process holds from its allocator",
            None,
            heap.metric_type(),
        )?;
        heap.encode(metric)
    }
}
