//! The limits of a node, and what it tells of them.

use std::sync::Arc;

use anyhow::{Context, Result};

use super::parts::Parts;
use crate::connection::Shared;
use crate::protection::{Desk, Protection};
use crate::tasks::OnExit;

impl Parts<'_> {
    pub(super) fn protection(&mut self) -> Arc<Protection> {
        let protection = Protection::new(self.config.protection.clone());
        protection.register(&mut self.metrics);
        Arc::new(protection)
    }

    /// Blocks and refusals of this node, for whoever asks all nodes.
    pub(super) async fn start_protection(&self, shared: &Shared) -> Result<()> {
        let desk = Desk {
            protection: Arc::clone(&shared.protection),
            link: self.link.clone(),
            node: shared.run.clone(),
        };
        let asks = desk.open().await.context("questions about blocks")?;
        let run = desk.run(asks, self.services_stop.clone());
        self.services.spawn("blocks", OnExit::Shutdown, run);
        Ok(())
    }
}
