//! Starts the watcher and the notifiers, and answers `/health/mq`.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::alarm::{Present, Told};
use super::conditions::Conditions;
use super::config::Config;
use super::dead_letters::DeadLetters;
use super::measured::{Durable, Measured, Stream};
use super::metrics::Metrics;
use super::nodes;
use super::notifier::Notifier;
use super::readiness::Readiness;
use super::receiver::{Form, Sender};
use super::report::Report;
use super::samples::Samples;
use super::turn::{Memory, Turn};
use super::watcher::Watcher;
use crate::jetstream::{Bucket, Link, Reader};
use crate::net::post;
use crate::outbox::store::Store;
use crate::tasks::{OnExit, Tasks};

/// What is looked at, and by whom.
pub struct Parts {
    /// Thresholds and receivers.
    pub config: Config,
    /// The NATS connection.
    pub link: Link,
    /// What this node's readiness depends on; its streams are the ones that are measured.
    pub readiness: Readiness,
    /// Stream and name of every provisioned durable.
    pub durables: Vec<(String, String)>,
    /// The stream of all uplinks, whose rate is watched.
    pub uplink_stream: Arc<str>,
    /// The stream of dead letters.
    pub dead_letter_stream: &'static str,
    /// The outbox, if something may be in it.
    pub outbox: Option<Store>,
    /// The name of the bucket of nodes.
    pub nodes: &'static str,
    /// This node.
    pub node: Box<str>,
}

/// What was measured, for whoever asks; cheap to clone.
#[derive(Clone)]
pub struct Health {
    config: Arc<Config>,
    measured: watch::Receiver<Measured>,
}

impl Health {
    /// Starts everything, until `shutdown`, and publishes its figures.
    #[must_use]
    pub fn start(
        parts: Parts,
        registry: &mut Registry,
        tasks: &Tasks,
        shutdown: &CancellationToken,
    ) -> Self {
        let metrics = Metrics::default();
        metrics.register(&parts.link, registry);
        let bucket = Bucket::new(&parts.link, parts.nodes);
        let samples = Samples::new(&parts.link, &metrics, &parts.durables);
        let (measured, receiver) = watch::channel(Measured::default());
        let (present, _) = watch::channel(Present::default());
        for notifier in notifiers(&parts, &bucket, &metrics, &present) {
            let run = notifier.run(shutdown.clone());
            tasks.spawn("notifier", OnExit::Log, run);
        }
        let lost = nodes::Lost {
            link: parts.link.clone(),
            nodes: bucket.clone(),
            stream: format!("KV_{}", parts.nodes),
            metrics: metrics.clone(),
        };
        tasks.spawn("lost nodes", OnExit::Log, lost.run(shutdown.clone()));
        let run = samples.clone().run(shutdown.clone());
        tasks.spawn("durables", OnExit::Log, run);
        let config = Arc::new(parts.config.clone());
        let watcher = watcher(parts, samples, metrics, &bucket, (measured, present));
        let run = watcher.run(shutdown.clone());
        tasks.spawn("health", OnExit::Log, run);
        Self {
            config,
            measured: receiver,
        }
    }

    /// How the durables are.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::new(&self.measured.borrow(), &self.config, Instant::now())
    }
}

fn watcher(
    parts: Parts,
    samples: Samples,
    metrics: Metrics,
    nodes: &Bucket,
    (measured, present): (watch::Sender<Measured>, watch::Sender<Present>),
) -> Watcher {
    let link = &parts.link;
    let durable = |(stream, name): &(String, String)| {
        let row = Durable {
            stream: stream.clone(),
            name: name.clone(),
            ..Durable::default()
        };
        (Reader::new(link, stream), row)
    };
    let stream = |name: &String| {
        let row = Stream {
            name: name.clone(),
            ..Stream::default()
        };
        (Reader::new(link, name), row)
    };
    let streams = parts.readiness.streams.iter().map(|stream| &stream.name);
    let has_receivers = parts.config.receivers().next().is_some();
    let interval = Duration::from_millis(parts.config.interval_ms);
    Watcher {
        interval,
        durables: parts.durables.iter().map(durable).collect(),
        streams: streams.map(stream).collect(),
        dead_letters: DeadLetters::new(link, parts.dead_letter_stream),
        outbox: parts.outbox,
        conditions: Conditions::new(&parts.config, &parts.node, &parts.uplink_stream),
        turn: has_receivers.then(|| Turn::new(link, nodes, &parts.node, interval)),
        readiness: parts.readiness,
        samples,
        metrics,
        measured,
        present,
    }
}

fn notifiers(
    parts: &Parts,
    nodes: &Bucket,
    metrics: &Metrics,
    present: &watch::Sender<Present>,
) -> Vec<Notifier> {
    let config = &parts.config;
    let sender = Sender {
        environment: config.environment.clone(),
        region: config.region.clone(),
        node: parts.node.to_string(),
    };
    let notifier = |(form, url): (Form, &str)| {
        // Checked with the configuration.
        let uri = post::parse(url).ok()?;
        Some(Notifier {
            memory: Memory::new(nodes, form.as_str()),
            form,
            uri,
            config: config.clone(),
            sender: sender.clone(),
            metrics: metrics.clone(),
            present: present.subscribe(),
            told: Told::default(),
            has_memory: false,
        })
    };
    config.receivers().filter_map(notifier).collect()
}
