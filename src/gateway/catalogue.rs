//! The catalogue of devices of a node, and what becomes of connections when it changes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::parts::Parts;
use crate::access::RulesByProduct;
use crate::auth::ProductRules;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::connection::{Shared, permission, rechecking, revocation};
use crate::tasks::OnExit;
use crate::topology::Desk;

/// Rules of products are looked at no more often without a notice.
const RULES_MIN: Duration = Duration::from_secs(1);

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
        let binding = &self.config.auth.binding;
        Some(Desk::new(catalogue, self.link.clone(), binding, answers))
    }

    /// What products allow and deny besides, where there is a catalogue.
    pub(super) async fn rules(&self) -> Result<ProductRules> {
        let rules = match &self.catalogue {
            Some(catalogue) => catalogue.rules().await.context("rules of products")?,
            None => RulesByProduct::default(),
        };
        Ok(ProductRules::new(rules))
    }

    /// Hears of changes, where there is a catalogue.
    pub(super) async fn start_revocation(&self, shared: &Arc<Shared>) -> Result<()> {
        if let Some(catalogue) = self.catalogue.clone() {
            let notices = revocation::subscribe(&self.link).await;
            let notices = notices.context("notices of changed devices")?;
            let (link, stop) = (self.link.clone(), self.services_stop.clone());
            let run = revocation::run(Arc::clone(shared), link.clone(), notices, stop.clone());
            self.services.spawn("revocation", OnExit::Shutdown, run);
            let run = rechecking::run(Arc::clone(shared), catalogue.clone(), link, stop.clone());
            self.services.spawn("rechecking", OnExit::Shutdown, run);
            let every = Duration::from_millis(self.config.auth.cache_ttl_ms).max(RULES_MIN);
            let run = permission::run(Arc::clone(shared), catalogue, every, stop);
            self.services.spawn("rules", OnExit::Shutdown, run);
        }
        Ok(())
    }
}
