//! The GPS workers of a node: the role `gps`.

use std::sync::Arc;

use anyhow::{Context, Result};

use super::parts::Parts;
use crate::config::{Config, Faults};
use crate::database::{self, Pool};
use crate::gps::store::Tables;
use crate::gps::{History, Metrics, Progress, Watched, Worker};
use crate::jetstream::Bucket;
use crate::outbox::store::Store;
use crate::ownership;
use crate::tasks::OnExit;

/// Where positions are and what is looked for in them, by a configuration.
///
/// # Errors
/// Every fault of the rules and fences.
pub fn watched(config: &Config) -> Result<Watched, Faults> {
    Watched::load(&config.gps).map_err(Faults)
}

/// The tables of reports of a configuration, and the outbox beside them.
///
/// # Errors
/// The database cannot be used; a server that is away is none.
pub async fn tables(config: &Config) -> Result<(Tables, Store), database::Error> {
    let pool = Pool::open(&config.database).await?;
    Ok((Tables::new(pool.clone()), Store::new(pool)))
}

impl Parts<'_> {
    /// A worker for each shard, as far as this node has that role; `node` names it in leases. The pool is the workers' own: whoever
    /// else uses the database up does not hold them up, nor they others.
    pub(super) async fn start_gps(&mut self, node: &str) -> Result<()> {
        if !self.config.writes_reports() {
            return Ok(());
        }
        let config = &self.config.gps;
        let watched = Arc::new(watched(self.config)?);
        let (tables, outbox) = tables(self.config)
            .await
            .context("database of GPS reports")?;
        let metrics = Metrics::default();
        metrics.register(&mut self.metrics);
        let source = self.uplink_stream()?;
        let progress = Progress::new(&self.link, &source, &tables, config.shards, &metrics);
        let history = History {
            tables: tables.clone(),
            retention_s: config.retention_s,
            metrics: metrics.clone(),
        };
        let worker = Worker {
            config: config.clone(),
            link: self.link.clone(),
            mapping: Arc::clone(&self.mapping),
            source,
            nodes: Bucket::new(&self.link, ownership::NODES),
            node: node.into(),
            watched,
            tables,
            outbox,
            wake: self.wake.clone(),
            metrics,
        };
        let stop = || self.services_stop.clone();
        let run = progress.run(stop());
        self.services.spawn("GPS progress", OnExit::Shutdown, run);
        let run = history.run(stop());
        self.services.spawn("GPS history", OnExit::Shutdown, run);
        for shard in 0..config.shards {
            let run = worker.clone().run(shard, stop());
            self.services.spawn("GPS reports", OnExit::Shutdown, run);
        }
        Ok(())
    }
}
