//! Looks at streams and durables while the gateway runs: creates durables that are gone, keeps how far they are, tells what differs.
//!
//! A durable that is deleted is seen at once, by the server's advisory; the regular look is for what no advisory told. Streams
//! are never created or changed here: what was in one that is gone does not come back.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::difference::differences;
use super::durable::Durable;
use super::floors::Floors;
use super::plan::{Action, Change, Kind};
use super::risk::{Limit, Risk, risks};
use super::stream::{self, Stream};
use crate::jetstream::{Error, Link};

const DELETED: &str = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.*.*";

/// How streams and durables are looked after.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How often streams and durables are compared with their declarations, in milliseconds. So much of what a durable had
    /// acknowledged may come again when it is deleted.
    pub check_interval_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            check_interval_ms: 5_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        match self.check_interval_ms {
            0 => vec!["check_interval_ms: expected more than 0".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Object {
    kind: ObjectKind,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "labels as they are written")]
enum ObjectKind {
    stream,
    durable,
}

#[derive(Clone, Default)]
struct Metrics {
    missing: Family<Object, Gauge>,
    drift: Family<Object, Gauge>,
    risks: Family<Risk, Gauge>,
    recreated: Counter,
}

/// The regular look.
pub struct Watch {
    link: Link,
    config: Config,
    streams: Vec<Stream>,
    durables: Vec<Durable>,
    floors: Floors,
    metrics: Metrics,
    /// What was told last of each that was not as declared.
    told: HashMap<String, Change>,
}

impl Watch {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(
        link: &Link,
        config: Config,
        streams: Vec<Stream>,
        durables: Vec<Durable>,
        floors: Floors,
    ) -> Self {
        Self {
            link: link.clone(),
            config,
            streams,
            durables,
            floors,
            metrics: Metrics::default(),
            told: HashMap::new(),
        }
    }

    /// Publishes the figures, and tells what the declarations themselves risk.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = self.metrics.clone();
        for risk in risks(&self.streams, &self.durables) {
            let Risk {
                stream,
                durable,
                limit,
            } = &risk;
            // Everything ages; a size limit is reached at any time.
            match limit {
                Limit::max_age => {
                    tracing::info!(
                        stream,
                        durable,
                        ?limit,
                        "the stream drops what the durable has not read by then"
                    );
                }
                _ => {
                    tracing::warn!(
                        stream,
                        durable,
                        ?limit,
                        "retention risk: the stream may drop what the durable has not read"
                    );
                }
            }
            metrics.risks.get_or_create(&risk).set(1);
        }
        registry.register(
            "provision_missing",
            "Declared streams and durables that were not there at the last look",
            metrics.missing,
        );
        registry.register(
            "provision_drift",
            "Keys in which streams and durables differ from their declarations",
            metrics.drift,
        );
        registry.register(
            "retention_risk",
            "Limits at which a stream drops what a durable has not read",
            metrics.risks,
        );
        registry.register(
            "durables_recreated",
            "Durables that were gone and were created again",
            metrics.recreated,
        );
    }

    /// Looks until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let every = Duration::from_millis(self.config.check_interval_ms);
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut deleted = match self.link.client.subscribe(DELETED).await {
            Ok(deleted) => deleted.boxed(),
            Err(error) => {
                tracing::warn!(%error, "no advisories of deleted durables");
                futures_util::stream::pending().boxed()
            }
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
                Some(_) = deleted.next() => {}
            }
            // While NATS is away everything would seem to be gone, and every request would take its time.
            if !self.link.is_connected() {
                continue;
            }
            let look = stop.run_until_cancelled(self.look()).await;
            if let Some(Err(error)) = look {
                tracing::warn!(%error, "streams and durables not compared with their declarations");
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        let mut created = HashMap::new();
        for stream in self.streams.clone() {
            let found = stream::found(&self.link, &stream.name).await?;
            let change = found.map(|found| {
                created.insert(stream.name.clone(), found.created);
                differences(&stream.config, &found.config)
            });
            self.tell(Change::of(Kind::Stream, stream.name, change));
        }
        for durable in self.durables.clone() {
            // With its stream it comes back when that does.
            let Some(stream_created) = created.get(&durable.stream) else {
                continue;
            };
            let Some(found) = durable.found(&self.link).await? else {
                let behind = durable.create(&self.link, &self.floors).await?;
                self.metrics.recreated.inc();
                tracing::warn!(
                    durable = durable.label(),
                    behind,
                    "durable was gone and is created again"
                );
                continue;
            };
            self.floors.keep(&durable, &found, stream_created).await?;
            let differences = durable.differences(&found.config);
            self.tell(Change::of(
                Kind::Durable,
                durable.label(),
                Some(differences),
            ));
        }
        Ok(())
    }

    /// Sets the figures; logs only what is news.
    fn tell(&mut self, change: Change) {
        let object = Object {
            kind: match change.kind {
                Kind::Stream => ObjectKind::stream,
                Kind::Durable => ObjectKind::durable,
            },
            name: change.name.clone(),
        };
        let missing = i64::from(change.action == Action::Create);
        self.metrics.missing.get_or_create(&object).set(missing);
        let keys = i64::try_from(change.differences.len()).unwrap_or(i64::MAX);
        self.metrics.drift.get_or_create(&object).set(keys);
        let (kind, name) = (object.kind, &object.name);
        if change.action == Action::Keep {
            if self.told.remove(name).is_some() {
                tracing::info!(?kind, name, "as declared again");
            }
            return;
        }
        if self.told.get(name) == Some(&change) {
            return;
        }
        if change.action == Action::Create {
            tracing::error!(?kind, name, "missing");
        }
        for found in &change.differences {
            let (key, wanted, actual) = (&found.key, &found.wanted, &found.actual);
            tracing::warn!(?kind, name, key, %wanted, %actual, "differs from its declaration");
        }
        self.told.insert(change.name.clone(), change);
    }
}
