//! Where outbox rows go, and how patiently.

use std::time::Duration;

use serde::Deserialize;

use super::store::{Policy, Terms};

/// How long a try that said nothing about a row is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// Shards of one claim: with the claims that one relay has out at once, all of them.
const SHARDS_MAX: usize = 16;

/// How the outbox is emptied.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The broker.
    pub publisher: Broker,
    /// Where it is; not for `jetstream`, whose connection is that of `[nats]`.
    pub url: String,
    /// Whether rows are published as they come. Without it they are written and wait; a pass that is asked for publishes them.
    pub relay_enabled: bool,
    /// Rows that one claim takes.
    pub batch_rows_max: usize,
    /// After so long the rows of a relay that is not heard of are taken over, in milliseconds.
    pub lease_ms: u64,
    /// So often a broker may refuse a row before it is dead.
    pub attempts_max: u32,
    /// How long a row waits after its first, second, … refusal, in milliseconds.
    pub backoff_ms: Vec<u64>,
    /// How often is looked for rows that nobody told about, in milliseconds.
    pub poll_interval_ms: u64,
    /// How long published rows are kept, in seconds.
    pub retention_s: u64,
}

/// Brokers that rows can be published to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Broker {
    /// Streams of NATS.
    JetStream,
    /// This process.
    Memory,
    /// Redis Streams.
    Redis,
    /// RabbitMQ, from 3.8.
    RabbitMq,
    /// Kafka.
    Kafka,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            publisher: Broker::JetStream,
            url: String::new(),
            relay_enabled: true,
            batch_rows_max: 1_000,
            lease_ms: 10_000,
            attempts_max: 5,
            backoff_ms: vec![1_000, 5_000, 30_000, 120_000],
            poll_interval_ms: 1_000,
            retention_s: 7 * 24 * 3_600,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |key: &str, fits: bool, expected: &str, found: String| {
            if !fits {
                faults.push(format!("{key}: expected {expected}, found {found}"));
            }
        };
        let (rows, lease, attempts) = (self.batch_rows_max, self.lease_ms, self.attempts_max);
        expect(
            "batch_rows_max",
            (1..=10_000).contains(&rows),
            "1 to 10000",
            rows.to_string(),
        );
        // A wave may be answered late, and is then still to be written down.
        expect(
            "lease_ms",
            (8_000..=60_000).contains(&lease),
            "8000 to 60000",
            lease.to_string(),
        );
        expect(
            "attempts_max",
            (1..=1_000).contains(&attempts),
            "1 to 1000",
            attempts.to_string(),
        );
        let backoff = &self.backoff_ms;
        let is_step = |step: &u64| (1..=86_400_000).contains(step);
        let fits = !backoff.is_empty() && backoff.iter().all(is_step);
        expect(
            "backoff_ms",
            fits,
            "at least one time of 1 to 86400000",
            format!("{backoff:?}"),
        );
        let poll = self.poll_interval_ms;
        expect(
            "poll_interval_ms",
            (10..=60_000).contains(&poll),
            "10 to 60000",
            poll.to_string(),
        );
        let retention = self.retention_s;
        let fits = (1..=10 * 365 * 86_400).contains(&retention);
        expect("retention_s", fits, "1 to 315360000", retention.to_string());
        let (schemes, expected): (&[&str], &str) = match self.publisher {
            Broker::JetStream | Broker::Memory => (&[], "none with jetstream and memory"),
            Broker::Redis => (&["redis://", "rediss://"], "redis://… or rediss://…"),
            Broker::RabbitMq => (&["amqp://", "amqps://"], "amqp://… or amqps://…"),
            Broker::Kafka => (&["kafka://"], "kafka://host:port[,host:port…]"),
        };
        let fits = match schemes {
            [] => self.url.is_empty(),
            schemes => schemes.iter().any(|scheme| self.url.starts_with(scheme)),
        };
        // It may hold a password.
        let found = self
            .url
            .split_once("://")
            .map_or("none", |(scheme, _)| scheme);
        expect("url", fits, expected, found.to_owned());
        faults
    }

    /// How long rows may be on their way to the broker before the rest is left for later.
    #[must_use]
    pub fn publish_max(&self) -> Duration {
        self.lease() * 2 / 5
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.poll_interval_ms)
    }

    pub(super) fn terms(&self) -> Terms {
        Terms {
            rows_max: self.batch_rows_max,
            shards_max: SHARDS_MAX,
            lease: self.lease(),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            attempts_max: self.attempts_max,
            backoff: self
                .backoff_ms
                .iter()
                .copied()
                .map(Duration::from_millis)
                .collect(),
            pause: PAUSE,
        }
    }
}
