//! A gateway from its start to the end of its drain.
//!
//! Invariant: whatever fails at the start leaves nothing running behind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::catalogue::catalogue;
use super::parts::Parts;
use crate::auth::Authenticator;
use crate::catalogue::Catalogue;
use crate::config::{Config, Faults, Role};
use crate::downlink::Delivery;
use crate::jetstream::provision::{self, Durable, Floors, Stream, Watch};
use crate::jetstream::{Link, Publisher};
use crate::mapping::{self, Mapping, Profile};
use crate::net;
use crate::net::{Bound, Listener, listener};
use crate::outbox::store::Wake;
use crate::registry::{Command, Registry};
use crate::tasks::Tasks;
use crate::telemetry;
use crate::telemetry::otlp::Spans;

/// A running gateway.
pub struct Gateway {
    /// Where devices connect over plain TCP, unless that is switched off.
    pub mqtt: Option<SocketAddr>,
    /// The further listeners, in the order of the configuration.
    pub listeners: Vec<Bound>,
    /// Where the operator asks.
    pub http: SocketAddr,
    pub(super) deadline: Duration,
    /// Cancelled by whoever wants the gateway to stop; starts the drain.
    pub(super) stop: CancellationToken,
    /// Ends the services behind the connections, last.
    pub(super) services_stop: CancellationToken,
    pub(super) services: Tasks,
    /// Of each listener.
    pub(super) connections: Arc<[Tasks]>,
    pub(super) accepting: Tasks,
    /// What connections started beside themselves.
    pub(super) beside: Tasks,
    pub(super) registry: Arc<Registry<Delivery>>,
    pub(super) publishers: Vec<Publisher>,
    pub(super) link: Link,
    pub(super) draining: Arc<AtomicBool>,
}

/// The rules and streams of a configuration.
///
/// # Errors
/// Every fault of the rules and stream declarations.
pub fn mapping(config: &Config) -> Result<Mapping, Faults> {
    let extra = match &config.rules.file {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Faults(vec![format!("{}: {error}", file.display())]))?;
            Some((file.display().to_string(), text))
        }
    };
    let extra = extra
        .as_ref()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let mapping = Mapping::load(&config.mapping, extra)
        .map_err(|faults| Faults(faults.iter().map(ToString::to_string).collect()))?;
    check_retry_budget(config, &mapping)?;
    check_lifetime(config, &mapping)?;
    Ok(mapping)
}

/// What the stream drops before its lifetime is over would be reported by nobody (G31).
fn check_lifetime(config: &Config, mapping: &Mapping) -> Result<(), Faults> {
    let name = &mapping.delivery.stream;
    let stream = mapping.streams.iter().find(|stream| *stream.name == **name);
    let max_age = stream.and_then(|stream| stream.config.get("max_age")?.as_u64());
    let max_age_s = max_age.unwrap_or(0) / 1_000_000_000;
    match max_age_s > 0 && config.downlink.lifetime_max_s >= max_age_s {
        true => Err(Faults(vec![format!(
            "[downlink] lifetime_max_s: expected less than the max_age of stream {name} ({max_age_s}), found {}",
            config.downlink.lifetime_max_s
        )])),
        false => Ok(()),
    }
}

/// A message sent again after the stream forgot its id would be stored twice (G-ONCE).
fn check_retry_budget(config: &Config, mapping: &Mapping) -> Result<(), Faults> {
    let uplink_streams = mapping.uplink_streams();
    let faults: Vec<String> = mapping
        .streams
        .iter()
        .filter(|stream| uplink_streams.iter().any(|name| **name == *stream.name))
        .filter_map(|stream| {
            let window_ms = stream.config.get("duplicate_window")?.as_u64()? / 1_000_000;
            let budget_ms = config.publisher.retry_budget_ms;
            (budget_ms >= window_ms).then(|| {
                format!(
                    "[publisher] retry_budget_ms: expected less than the duplicate_window of stream {} ({window_ms}), found {budget_ms}",
                    stream.name
                )
            })
        })
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Faults(faults)),
    }
}

/// Who may connect; the open profile needs no catalogue for it.
fn authenticator(
    config: &Config,
    catalogue: Option<&Catalogue>,
    link: &Link,
) -> Result<Authenticator> {
    match catalogue {
        None => Ok(Authenticator::open()),
        Some(catalogue) => Authenticator::new(&config.auth, catalogue.clone(), Some(&link.client))
            .map_err(|faults| anyhow!("[auth] {}", faults.join("; "))),
    }
}

/// All listeners of a configuration, the plain one first.
fn bind(config: &Config) -> Result<Vec<Listener>> {
    let connections_max = listener::connections_max(&config.mqtt);
    let bind = |listener: net::ListenerConfig| {
        Listener::bind(&listener, config.mqtt.backlog, connections_max)
            .with_context(|| format!("cannot listen for MQTT on {}", listener.name()))
    };
    config.listeners().map(bind).collect()
}

/// The streams as the server is asked for them.
#[must_use]
pub fn streams(mapping: &Mapping) -> Vec<Stream> {
    mapping
        .streams
        .iter()
        .map(|stream| Stream {
            name: stream.name.clone(),
            config: stream.config.clone(),
        })
        .collect()
}

/// The durables as the server is asked for them.
#[must_use]
pub fn durables(mapping: &Mapping) -> Vec<Durable> {
    let durable = |durable: &mapping::Durable| Durable {
        stream: durable.stream.clone(),
        name: durable.name.clone(),
        config: durable.config.clone(),
    };
    mapping.durables.iter().map(durable).collect()
}

impl Gateway {
    /// Starts everything; on an error nothing is left running. `stop` asks for the drain.
    ///
    /// # Errors
    /// What is missing to start, and what was expected.
    pub async fn start(config: &Config, stop: CancellationToken) -> Result<Self> {
        let mapping = Arc::new(mapping(config)?);
        let catalogue = match config.has_role(Role::Gateway) && config.profile == Profile::Device {
            true => Some(catalogue(config).await?),
            false => None,
        };
        let link = Link::connect(&config.nats).await?;
        let started = Self::start_at(config, link.clone(), mapping, catalogue, stop);
        started.await.map_err(|error| match link.denied() {
            Some(words) => error.context(format!(
                "NATS: not permitted to this user: {words}; deploy/nats/nats-server.conf has what it needs"
            )),
            None => error,
        })
    }

    /// The same with a NATS server, and the catalogue of the devices that connect here.
    async fn start_at(
        config: &Config,
        link: Link,
        mapping: Arc<Mapping>,
        catalogue: Option<Catalogue>,
        stop: CancellationToken,
    ) -> Result<Self> {
        let authenticator = match config.has_role(Role::Gateway) {
            true => Some(authenticator(config, catalogue.as_ref(), &link)?),
            false => None,
        };
        let streams = streams(&mapping);
        let durabilities = provision::ensure(
            &link,
            &streams,
            config.nats.apply,
            config.nats.allow_async_persist,
        )
        .await?;
        let (durables, floors) = (durables(&mapping), Floors::new(&link));
        provision::ensure_durables(&link, &durables, &floors, config.nats.apply).await?;
        let http = TcpListener::bind(config.http.listen)
            .await
            .with_context(|| format!("cannot listen for HTTP on {}", config.http.listen))?;

        let services_stop = CancellationToken::new();
        let on_error = services_stop.clone().drop_guard();
        let mut metrics = telemetry::registry();
        provision::register(&durabilities, &mut metrics);
        metrics.register(
            "nats_dropped",
            "Messages dropped because a NATS subscription was not read in time",
            link.dropped.clone(),
        );
        let watch = Watch::new(
            &link,
            config.streams.clone(),
            streams.clone(),
            durables,
            floors,
        );
        let mut parts = Parts {
            config,
            mapping,
            link,
            services: Tasks::new(stop.clone()),
            services_stop,
            metrics,
            spans: Spans::default(),
            wake: Wake::default(),
            outbox: None,
            jobs: None,
            catalogue,
        };
        parts.start_spans()?;
        parts.start_watch(watch);
        let gateway = match authenticator {
            Some(authenticator) => {
                let listeners = bind(config)?;
                parts
                    .start(authenticator, streams, listeners, http, stop)
                    .await?
            }
            None => parts.start_without_devices(streams, http, stop).await?,
        };
        on_error.disarm();
        Ok(gateway)
    }

    /// Waits until it is asked to stop, then drains: whether everything ended within the deadline and without a failure.
    pub async fn run(self) -> bool {
        self.stop.cancelled().await;
        let failed = self.services.failed();
        match tokio::time::timeout(self.deadline, self.drain()).await {
            Ok(()) => !failed,
            Err(_) => {
                tracing::error!("drain deadline reached");
                false
            }
        }
    }

    /// GUARANTEES, Drain: not ready; stop accepting and reading; wait for what is in flight; say goodbye; flush.
    async fn drain(self) {
        self.draining.store(true, Ordering::Relaxed);
        let connections: usize = self.connections.iter().map(Tasks::len).sum();
        tracing::info!(connections, "draining");
        self.accepting.wait().await;
        self.registry.broadcast(Command::Drain);
        for connections in &*self.connections {
            connections.wait().await;
        }
        self.beside.wait().await;
        for publisher in &self.publishers {
            publisher.drained().await;
        }
        self.services_stop.cancel();
        self.services.wait().await;
        if let Err(error) = self.link.client.drain().await {
            tracing::warn!(%error, "NATS connection not drained");
        }
        tracing::info!("drained");
    }
}
