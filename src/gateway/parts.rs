//! What a gateway is built of: publishers, the state that connections share, services, listeners; each started here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytestring::ByteString;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry as MetricRegistry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lifecycle::{self, Gateway};
use crate::auth::{Authenticator, ProductRules};
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::connection::{self, Recent, Shared};
use crate::dlq::DeadLetters;
use crate::downlink::{self, Finished, Lifetimes, Live, Reports, Retained, Shares};
use crate::expiry::Janitor;
use crate::jetstream::provision::Stream;
use crate::jetstream::{Bucket, Feed, Fence, Link, Publisher, Reader, publisher, pulse};
use crate::jobs::Jobs;
use crate::mapping::{Mapping, Profile};
use crate::net::{Accepted, Address, Bound, Connections, Listener, Renewal};
use crate::outbox::Relay;
use crate::outbox::publisher::Any;
use crate::outbox::store::Wake;
use crate::ownership::{self, Ownership, Wills};
use crate::router::Router;
use crate::rpc::{self, Board, Desk};
use crate::session;
use crate::status::Status;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;
use crate::telemetry::otlp::Spans;
use crate::uplink::{self, Uplink};

/// What a PUBLISH adds in NATS to its payload: subject, headers, user properties. Kept free below `max_payload`.
const NATS_HEADROOM_BYTES: usize = 8 * 1024;
/// Shards of a status stream: one device's events stay in order in any number; one is enough for a storm.
const STATUS_SHARDS: usize = 1;
/// The stream of dead letters.
pub(super) const DEAD_LETTERS: &str = "DLQ";
/// Sessions without a connection that are cared for at once, beyond those already under way.
const ORPHANS_MAX: usize = 64;

/// The publishers of the streams that a gateway writes.
struct Stores {
    uplink: Publisher,
    status: Publisher,
    application: Publisher,
    dead_letters: Publisher,
}

/// What is built first, while the rest is wired.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) mapping: Arc<Mapping>,
    pub(super) link: Link,
    pub(super) services: Tasks,
    pub(super) services_stop: CancellationToken,
    pub(super) metrics: MetricRegistry,
    pub(super) spans: Spans,
    /// Wakes the relay of the outbox, if it is on this node.
    pub(super) wake: Wake,
    /// That relay.
    pub(super) outbox: Option<Relay<Any>>,
    /// Jobs, if they are run on this node.
    pub(super) jobs: Option<Jobs>,
    /// The catalogue of devices, if they connect to this node and prove who they are.
    pub(super) catalogue: Option<Catalogue>,
}

impl Parts<'_> {
    /// Starts what it is built of; the gateway is ready then.
    pub(super) async fn start(
        mut self,
        mut authenticator: Authenticator,
        streams: Vec<Stream>,
        listeners: Vec<Listener>,
        http: TcpListener,
        stop: CancellationToken,
    ) -> Result<Gateway> {
        let run: Box<str> = format!("{:016x}", telemetry::random_u64()).into();
        let ownership = Ownership::new(
            self.config.ownership.clone(),
            &self.link,
            &run,
            Wills::default(),
        );
        let stores = self.stores(&ownership)?;
        let uplink = stores.uplink.clone();
        let publishers = vec![
            uplink.clone(),
            stores.status.clone(),
            stores.application.clone(),
            stores.dead_letters.clone(),
        ];
        if let Some(reading) = authenticator.take_reading() {
            let run = reading.run(self.services_stop.clone());
            self.services.spawn("login keys", OnExit::Shutdown, run);
        }
        if let Some(activation) = authenticator.take_activation() {
            let run = activation.run(self.services_stop.clone());
            self.services.spawn("first logins", OnExit::Shutdown, run);
        }
        let rules = self.rules().await?;
        let shared = self.shared(authenticator, rules, stores, ownership, run);
        self.start_downlinks(&shared, uplink.clone()).await?;
        self.start_ownership(&shared).await?;
        self.start_revocation(&shared).await?;
        self.start_rpc(&shared, &stop).await?;
        self.start_protection(&shared).await?;
        self.start_workers(&shared.run).await?;
        let draining = Arc::new(AtomicBool::new(false));
        let http_address = http.local_addr()?;
        let mut bound: Vec<Bound> = listeners.iter().map(Listener::bound).cloned().collect();
        let mqtt = match self.config.mqtt.listen.map(|_| bound.remove(0).address) {
            Some(Address::Listen(address)) => Some(address),
            Some(Address::Unix(_)) | None => None,
        };
        self.start_renewal(&listeners)?;
        let (accepting, connections) = self.start_listeners(listeners, &shared, &stop);
        let run = shared.run.clone();
        self.start_admin(http, streams, Some(uplink), &draining, run)
            .await?;
        let listening: Vec<String> = mqtt
            .iter()
            .map(ToString::to_string)
            .chain(bound.iter().map(|bound| bound.address.to_string()))
            .collect();
        tracing::info!(mqtt = ?listening, http = %http_address, nats = self.link.url(), "gateway ready");
        Ok(Gateway {
            mqtt,
            listeners: bound,
            http: http_address,
            deadline: Duration::from_millis(self.config.drain.deadline_ms),
            stop,
            services_stop: self.services_stop,
            services: self.services,
            connections,
            accepting,
            beside: shared.tasks.clone(),
            registry: Arc::clone(&shared.registry),
            publishers,
            link: self.link,
            draining,
        })
    }

    /// Where there are certificates; otherwise SIGHUP keeps its usual meaning.
    fn start_renewal(&mut self, listeners: &[Listener]) -> Result<()> {
        let certificates: Vec<_> = listeners
            .iter()
            .filter_map(Listener::tls)
            .cloned()
            .collect();
        if !certificates.is_empty() {
            let every = Duration::from_millis(self.config.mqtt.certificate_check_interval_ms);
            let renewal = Renewal::new(certificates, every).context("SIGHUP")?;
            renewal.register(&mut self.metrics);
            let run = renewal.run(self.services_stop.clone());
            self.services.spawn("renewal", OnExit::Shutdown, run);
        }
        Ok(())
    }

    /// The accept loops, and the connections of each.
    fn start_listeners(
        &mut self,
        listeners: Vec<Listener>,
        shared: &Arc<Shared>,
        stop: &CancellationToken,
    ) -> (Tasks, Arc<[Tasks]>) {
        let refused = Counter::default();
        self.metrics.register(
            "connections_refused",
            "Sockets closed because of a connection limit",
            refused.clone(),
        );
        let accepting = self.services.group();
        let all: Arc<[Tasks]> = listeners.iter().map(|_| self.services.group()).collect();
        for (listener, own) in listeners.into_iter().zip(&*all) {
            let (tasks, all) = (own.clone(), Arc::clone(&all));
            let count = move || Connections {
                own: tasks.len(),
                all: all.iter().map(Tasks::len).sum(),
            };
            let (own, shared, handshakes_stop) = (own.clone(), Arc::clone(shared), stop.clone());
            let serve = move |accepted: Accepted| {
                let serve =
                    connection::serve(Arc::clone(&shared), accepted, handshakes_stop.clone());
                own.spawn("connection", OnExit::Log, serve);
            };
            let run = listener.run(stop.clone(), refused.clone(), count, serve);
            accepting.spawn("listener", OnExit::Shutdown, run);
        }
        (accepting, all)
    }

    /// The one stream of all uplinks: a connection's messages are finished in order, so they go one way.
    pub(super) fn uplink_stream(&self) -> Result<Arc<str>> {
        match self.mapping.uplink_streams().as_slice() {
            [stream] => Ok(Arc::clone(stream)),
            streams => bail!("expected one stream in all up rules, found {streams:?}"),
        }
    }

    fn stores(&mut self, ownership: &Ownership) -> Result<Stores> {
        let uplink_stream = self.uplink_stream()?;
        let config = &self.config.publisher;
        let fence: Arc<dyn Fence> = Arc::new(ownership.clone());
        let uplink = self.publisher(&uplink_stream, "uplink_stream", config, Some(&fence))?;
        let config = publisher::Config {
            shards: STATUS_SHARDS,
            // For ever: a repeated event is seen to be one by its id and epoch, a lost one by nobody (G-STATUS).
            retry_budget_ms: u64::MAX,
            ..config.clone()
        };
        Ok(Stores {
            uplink,
            status: self.publisher("DEVICE_STATUS", "status_stream", &config, None)?,
            application: self.publisher("APPLICATION", "application_stream", &config, None)?,
            dead_letters: self.publisher(DEAD_LETTERS, "dead_letter_stream", &config, None)?,
        })
    }

    fn publisher(
        &mut self,
        stream: &str,
        prefix: &'static str,
        config: &publisher::Config,
        fence: Option<&Arc<dyn Fence>>,
    ) -> Result<Publisher> {
        let streams = lifecycle::streams(&self.mapping);
        let stream = streams.into_iter().find(|declared| declared.name == stream);
        let stream = stream.with_context(|| format!("no stream is declared for {prefix}"))?;
        let (link, tasks) = (&self.link, &self.services);
        let publisher = Publisher::start(&stream, config, link, fence, tasks, &self.services_stop);
        publisher.register(&mut self.metrics, prefix);
        Ok(publisher)
    }

    /// From here on nothing that is stored for devices is missed.
    async fn start_downlinks(&self, shared: &Arc<Shared>, uplink: Publisher) -> Result<()> {
        let delivery = &self.mapping.delivery;
        let (feed, position) = Feed::start(&self.link, &delivery.stream, &delivery.filters)
            .await
            .context("delivery stream")?;
        shared.router.begin(feed.stream(), position);
        let lifetimes = Lifetimes::new(self.config.downlink.lifetimes_max);
        let live = Live {
            feed,
            mapping: Arc::clone(&self.mapping),
            router: Arc::clone(&shared.router),
            registry: Arc::clone(&shared.registry),
            finished: shared.finished.clone(),
            lifetimes: lifetimes.clone(),
            retained: shared.retained.clone(),
            uplink,
        };
        let run = live.run(self.services_stop.clone());
        self.services.spawn("downlink", OnExit::Shutdown, run);
        let run = pulse::run(self.link.clone(), self.services_stop.clone());
        self.services.spawn("pulse", OnExit::Shutdown, run);
        if self.mapping.has_one_receiver() {
            self.start_janitor(shared, lifetimes);
        }
        Ok(())
    }

    fn start_janitor(&self, shared: &Shared, lifetimes: Lifetimes) {
        let janitor = Janitor {
            config: self.config.downlink.clone(),
            nodes: Bucket::new(&self.link, ownership::NODES),
            node: shared.run.clone(),
            reader: shared.reader.clone(),
            mapping: Arc::clone(&self.mapping),
            ownership: shared.ownership.clone(),
            finished: shared.finished.clone(),
            lifetimes,
        };
        let run = janitor.run(self.services_stop.clone());
        self.services.spawn("janitor", OnExit::Shutdown, run);
    }

    /// Requests to devices, until `stop`.
    async fn start_rpc(&mut self, shared: &Arc<Shared>, stop: &CancellationToken) -> Result<()> {
        let metrics = rpc::Metrics::default();
        metrics.register(&mut self.metrics);
        let desk = Desk {
            config: self.config.rpc.clone(),
            link: self.link.clone(),
            mapping: Arc::clone(&self.mapping),
            registry: Arc::clone(&shared.registry),
            ownership: shared.ownership.clone(),
            topology: shared.desk.clone(),
            board: shared.asks.clone(),
            node: shared.run.clone(),
            tasks: shared.tasks.clone(),
            metrics,
            stop: stop.clone(),
        };
        if let Some(requests) = desk.open().await.context("requests to devices")? {
            let run = desk.run(requests);
            self.services.spawn("requests", OnExit::Shutdown, run);
        }
        Ok(())
    }

    /// The node's lease, what other nodes ask of it, and what is owed to devices without a connection.
    async fn start_ownership(&self, shared: &Arc<Shared>) -> Result<()> {
        let ownership = &shared.ownership;
        ownership.register().await.context("lease of this node")?;
        let requests = ownership.releases().await.context("requests of nodes")?;
        let (orphans, adopted) = mpsc::channel(ORPHANS_MAX);
        let stop = || self.services_stop.clone();
        let releases = ownership.clone().run_releases(
            requests,
            Arc::clone(&shared.registry),
            shared.tasks.clone(),
            stop(),
        );
        self.services.spawn("releases", OnExit::Shutdown, releases);
        let run = ownership
            .clone()
            .run(Arc::clone(&shared.registry), orphans, stop());
        self.services.spawn("ownership", OnExit::Shutdown, run);
        let run = connection::afterlife::run(Arc::clone(shared), adopted, stop());
        self.services.spawn("afterlife", OnExit::Shutdown, run);
        Ok(())
    }

    fn shared(
        &mut self,
        authenticator: Authenticator,
        rules: ProductRules,
        stores: Stores,
        ownership: Ownership,
        run: Box<str>,
    ) -> Arc<Shared> {
        authenticator.metrics.register(&mut self.metrics);
        let metrics = connection::Metrics::default();
        metrics.register(&mut self.metrics);
        let downlinks = downlink::Metrics::default();
        downlinks.register(&mut self.metrics);
        let dead_letters = DeadLetters::new(stores.dead_letters, self.spans.clone());
        dead_letters.register(&mut self.metrics);
        let reports = Reports::new(self.link.clone());
        let reader = Reader::new(&self.link, &self.mapping.delivery.stream);
        telemetry::register_process(&mut self.metrics);
        let session = Arc::new(self.session());
        let tasks = self.services.group();
        let finished = self.finished(downlink::Parts {
            mapping: Arc::clone(&self.mapping),
            reader: reader.clone(),
            metrics: downlinks.clone(),
            reports: reports.clone(),
            dead_letters: dead_letters.clone(),
            tasks: tasks.clone(),
        });
        let router = Arc::<Router<_>>::default();
        let source = downlink::Source {
            node: run.clone(),
            stream: Arc::clone(&self.mapping.delivery.stream),
            inactive_threshold: Duration::from_secs(session.session_expiry_max_s.into()),
            passed: router.passed(),
        };
        Arc::new(Shared {
            config: self.config.connection.clone(),
            session,
            downlink: self.config.downlink.clone(),
            save_interval_ms: self.config.ownership.save_interval_ms,
            protection: self.protection(),
            authenticator,
            revocations: Recent::new(self.config.connection.handshake_timeout()),
            rebindings: Recent::new(self.config.connection.handshake_timeout()),
            rules,
            uplink: self.uplink(stores.uplink),
            status: Status::new(
                stores.status,
                stores.application,
                &self.config.mapping.protocol,
            )
            .for_applications(self.config.events.shape),
            ownership,
            registry: Arc::default(),
            router,
            shares: Shares::new(
                self.link.clone(),
                Arc::clone(&self.mapping),
                downlinks.clone(),
                tasks.clone(),
                source,
            ),
            reader,
            retained: Retained::new(&self.link, Arc::clone(&self.mapping)),
            reports,
            finished,
            dead_letters,
            asks: Board::new(self.config.rpc.device_requests_max),
            metrics,
            downlinks,
            tasks,
            run,
            server_reference: self.server_reference(),
            accepted: AtomicU64::new(0),
            desk: self.desk(),
            mapping: Arc::clone(&self.mapping),
        })
    }

    fn uplink(&self, publisher: Publisher) -> Uplink {
        let limits = uplink::Limits {
            topic_levels_max: self.config.session.topic_levels_max,
            user_properties_max: self.config.session.user_properties_max,
        };
        let (mapping, spans) = (Arc::clone(&self.mapping), self.spans.clone());
        Uplink::new(mapping, publisher, spans, limits)
    }

    /// What sessions may do, as far as the profile and the server allow it.
    fn session(&self) -> session::Config {
        let mut session = self.config.session.clone();
        session.packet_bytes_max = self.packet_bytes_max();
        session.shared_subscriptions = self.config.profile == Profile::Open;
        // A device is told that its message is in its stream, and there are no subscribers who could be surprised.
        session.publishes_at_release = self.config.profile == Profile::Open;
        session
    }

    fn server_reference(&self) -> Option<ByteString> {
        let reference = self.config.drain.server_reference.as_deref();
        reference.map(Into::into)
    }

    /// What becomes of downlinks that are finished.
    fn finished(&self, parts: downlink::Parts) -> Finished {
        let (finished, removals) = Finished::new(parts);
        let removals = removals.run(self.services_stop.clone());
        self.services.spawn("removals", OnExit::Shutdown, removals);
        finished
    }

    /// One effective limit, no larger than what NATS takes with its headers (G14).
    fn packet_bytes_max(&self) -> u32 {
        let payload_max = self.link.client.server_info().max_payload;
        let stored_max = u32::try_from(payload_max.saturating_sub(NATS_HEADROOM_BYTES));
        let wanted = self.config.session.packet_bytes_max;
        let effective = wanted.min(stored_max.unwrap_or(u32::MAX));
        if effective < wanted {
            tracing::info!(
                wanted,
                effective,
                payload_max,
                "packet limit lowered to what NATS takes"
            );
        }
        effective
    }
}
