//! What a node has for its operator: the HTTP port, health and alarms, the watch over streams and durables, spans.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use tokio::net::TcpListener;

use super::parts::{DEAD_LETTERS, Parts};
use crate::admin::Admin;
use crate::dlq::{Collector, Shelf};
use crate::health::{self, Health, Readiness};
use crate::jetstream::Publisher;
use crate::jetstream::provision::{Stream, Watch};
use crate::outbox::store::Store;
use crate::ownership;
use crate::tasks::OnExit;
use crate::telemetry::otlp;

impl Parts<'_> {
    /// Streams and durables are looked after, and what falls out of durables is kept.
    pub(super) fn start_watch(&mut self, watch: Watch) {
        watch.register(&mut self.metrics);
        let run = watch.run(self.services_stop.clone());
        self.services.spawn("watch", OnExit::Shutdown, run);
        let durables = self.mapping.durables.iter();
        let durables = durables.filter(|durable| durable.dead_letters);
        let durables = durables.map(|durable| (durable.stream.clone(), durable.name.clone()));
        let collector = Collector::new(&self.link, durables.collect(), self.spans.clone());
        collector.register(&mut self.metrics);
        let run = collector.run(self.services_stop.clone());
        self.services.spawn("dead letters", OnExit::Shutdown, run);
    }

    /// The operator's HTTP port, and what it tells about.
    pub(super) async fn start_admin(
        &mut self,
        http: TcpListener,
        streams: Vec<Stream>,
        uplink: Option<Publisher>,
        draining: &Arc<AtomicBool>,
        node: Box<str>,
    ) -> Result<()> {
        let readiness = Readiness {
            link: self.link.clone(),
            streams: streams.into(),
            uplink,
            draining: Arc::clone(draining),
        };
        let outbox = self.outbox_of_health().await?;
        let health = self.start_health(&readiness, node, outbox)?;
        let admin = Admin {
            readiness,
            health,
            shelf: Shelf::new(&self.link),
            outbox: self.outbox.as_ref().map(|relay| relay.store.clone()),
            jobs: self.jobs.clone(),
            catalogue: self.catalogue.clone(),
            link: self.link.clone(),
            registry: std::mem::take(&mut self.metrics),
        };
        let run = admin.run(http, self.services_stop.clone());
        self.services.spawn("admin", OnExit::Shutdown, run);
        Ok(())
    }

    fn start_health(
        &mut self,
        readiness: &Readiness,
        node: Box<str>,
        outbox: Option<Store>,
    ) -> Result<Health> {
        let durables = self.mapping.durables.iter();
        let durables = durables.map(|own| (own.stream.clone(), own.name.clone()));
        let parts = health::Parts {
            config: self.config.alarm.clone(),
            link: self.link.clone(),
            readiness: readiness.clone(),
            durables: durables.collect(),
            uplink_stream: self.uplink_stream()?,
            dead_letter_stream: DEAD_LETTERS,
            outbox,
            nodes: ownership::NODES,
            node,
        };
        let (metrics, tasks) = (&mut self.metrics, &self.services);
        Ok(Health::start(parts, metrics, tasks, &self.services_stop))
    }

    /// Where spans are left; nothing runs for them unless they are exported.
    pub(super) fn start_spans(&mut self) -> Result<()> {
        if let Some((spans, exporter)) = otlp::start(&self.config.telemetry)? {
            exporter.register(&mut self.metrics);
            let run = exporter.run(self.services_stop.clone());
            self.services.spawn("spans", OnExit::Shutdown, run);
            self.spans = spans;
        }
        Ok(())
    }
}
