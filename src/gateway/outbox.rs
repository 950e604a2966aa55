//! The outbox's relay of a node.

use std::sync::Arc;

use anyhow::{Context, Result};

use super::parts::Parts;
use crate::database::{self, Pool};
use crate::outbox::publisher::Any;
use crate::outbox::store::Store;
use crate::outbox::{Metrics, Relay};
use crate::tasks::OnExit;

impl Parts<'_> {
    /// Starts it, as far as this node has that role.
    pub(super) async fn start_outbox(&mut self) -> Result<()> {
        if !self.config.empties_outbox() {
            return Ok(());
        }
        let pool = Pool::open(&self.config.database).await;
        let config = &self.config.outbox;
        let publisher = Any::open(config, &self.link, &self.mapping).await?;
        let metrics = Metrics::default();
        metrics.register(&mut self.metrics);
        let relay = Relay {
            store: Store::new(pool.context("database of the outbox")?),
            publisher: Arc::new(publisher),
            config: config.clone(),
            metrics,
            wake: self.wake.clone(),
        };
        self.outbox = Some(relay.clone());
        let run = relay.serve(self.services_stop.clone());
        self.services.spawn("outbox", OnExit::Shutdown, run);
        Ok(())
    }

    /// The outbox as it is looked at by every node that works with it, also one that does not empty it: what one of them finds is
    /// told for all.
    pub(super) async fn outbox_of_health(&self) -> Result<Option<Store>> {
        let config = self.config;
        if !config.writes_reports() && !config.empties_outbox() && !config.runs_jobs() {
            return Ok(None);
        }
        let config = database::Config {
            connections_max: 1,
            ..config.database.clone()
        };
        let pool = Pool::open(&config)
            .await
            .context("database of the outbox")?;
        Ok(Some(Store::new(pool)))
    }
}
