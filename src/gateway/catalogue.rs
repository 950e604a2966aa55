//! The catalogue of devices of a node, and what becomes of connections when it changes.

use std::sync::Arc;

use anyhow::{Context, Result};

use super::parts::Parts;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::connection::{Shared, revocation};
use crate::tasks::OnExit;
use crate::topology::Desk;

/// The catalogue of a configuration, with its keys.
///
/// # Errors
/// The keys cannot be read, or the database cannot be used.
pub async fn catalogue(config: &Config) -> Result<Catalogue> {
    let keys = config.catalogue.load().context("[catalogue]")?;
    let catalogue = Catalogue::open(&config.database).await;
    Ok(catalogue.context("database of devices")?.sealed_with(keys))
}

impl Parts<'_> {
    /// Who knows of sub-devices, where there is a catalogue.
    pub(super) fn desk(&self) -> Option<Desk> {
        let answers = self.config.connection.answers_topology;
        let catalogue = self.catalogue.clone()?;
        Some(Desk::new(catalogue, self.link.clone(), answers))
    }

    /// Hears of changes, where there is a catalogue.
    pub(super) async fn start_revocation(&self, shared: &Arc<Shared>) -> Result<()> {
        if self.catalogue.is_some() {
            let notices = revocation::subscribe(&self.link).await;
            let notices = notices.context("notices of changed devices")?;
            let (shared, link) = (Arc::clone(shared), self.link.clone());
            let run = revocation::run(shared, link, notices, self.services_stop.clone());
            self.services.spawn("revocation", OnExit::Shutdown, run);
        }
        Ok(())
    }
}
