//! The event workers of a node, and a node without devices.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::lifecycle::Gateway;
use super::parts::Parts;
use crate::events::{MODELS, Metrics, Models, Progress, Worker};
use crate::jetstream::provision::Stream;
use crate::jetstream::{Bucket, pulse};
use crate::ownership;
use crate::tasks::OnExit;
use crate::telemetry;

impl Parts<'_> {
    /// What works behind the streams, as far as this node has the roles; `node` names it in leases.
    pub(super) async fn start_workers(&mut self, node: &str) -> Result<()> {
        self.start_events(node).await?;
        self.start_gps(node).await?;
        self.start_outbox().await?;
        self.start_jobs(node).await
    }

    /// A worker for each shard.
    async fn start_events(&mut self, node: &str) -> Result<()> {
        if !self.config.makes_events() {
            return Ok(());
        }
        let config = &self.config.events;
        let metrics = Metrics::default();
        metrics.register(&mut self.metrics);
        let source = self.uplink_stream()?;
        let loaded = Models::load(&Bucket::new(&self.link, MODELS)).await;
        let (models, watch) = loaded.context("bucket of thing models")?;
        let progress = Progress::new(&self.link, &source, config.shards, &metrics);
        let worker = Worker {
            config: config.clone(),
            link: self.link.clone(),
            mapping: Arc::clone(&self.mapping),
            source,
            nodes: Bucket::new(&self.link, ownership::NODES),
            node: node.into(),
            models: models.clone(),
            metrics,
            spans: self.spans.clone(),
        };
        let stop = || self.services_stop.clone();
        let run = models.run(watch, stop());
        self.services.spawn("thing models", OnExit::Shutdown, run);
        let run = progress.run(stop());
        self.services.spawn("event progress", OnExit::Shutdown, run);
        for shard in 0..config.shards {
            let run = worker.clone().run(shard, stop());
            self.services.spawn("events", OnExit::Shutdown, run);
        }
        Ok(())
    }

    /// Starts a node without devices: it listens on HTTP only.
    pub(super) async fn start_without_devices(
        mut self,
        streams: Vec<Stream>,
        http: TcpListener,
        stop: CancellationToken,
    ) -> Result<Gateway> {
        telemetry::register_process(&mut self.metrics);
        let node = format!("{:016x}", telemetry::random_u64());
        self.start_workers(&node).await?;
        let run = pulse::run(self.link.clone(), self.services_stop.clone());
        self.services.spawn("pulse", OnExit::Shutdown, run);
        let draining = Arc::new(AtomicBool::new(false));
        let http_address = http.local_addr()?;
        self.start_admin(http, streams, None, &draining, node.into())
            .await?;
        tracing::info!(http = %http_address, nats = self.link.url(), "ready, without devices");
        Ok(Gateway {
            mqtt: None,
            listeners: Vec::new(),
            http: http_address,
            deadline: Duration::from_millis(self.config.drain.deadline_ms),
            stop,
            services_stop: self.services_stop,
            connections: Arc::new([]),
            accepting: self.services.group(),
            beside: self.services.group(),
            services: self.services,
            registry: Arc::default(),
            publishers: Vec::new(),
            link: self.link,
            draining,
        })
    }
}
