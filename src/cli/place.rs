//! Where the catalogue is, and where gateways are told of changes.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::catalogue::{Catalogue, Notice, What, tell};
use crate::config::Config;
use crate::database;
use crate::device::DeviceId;
use crate::jetstream::{Link, client};
use crate::protection::{Answer, Ask, ask};

/// How long NATS is waited for to tell gateways.
const CONNECT_MS: u64 = 5_000;

/// The options of every command about the catalogue.
#[derive(Clone, clap::Args)]
pub(super) struct Place {
    /// Configuration file, for its database, keys and NATS
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Database of products and devices, for example sqlite://state/jetway.db
    #[arg(
        long = "database",
        value_name = "URL",
        env = "JETWAY_DATABASE_URL",
        hide_env_values = true,
        required_unless_present = "config"
    )]
    url: Option<String>,
    /// NATS servers over which gateways are told of changes
    #[arg(
        long,
        value_name = "URL",
        env = "JETWAY_NATS_URL",
        hide_env_values = true
    )]
    nats: Option<String>,
}

/// The catalogue, and NATS if it was named.
pub(super) struct Opened {
    pub(super) catalogue: Catalogue,
    nats: Option<client::Config>,
}

impl Place {
    /// Opens the database.
    pub(super) async fn open(&self) -> Result<Opened> {
        let mut config = Config::load(self.config.as_deref(), std::env::vars())?;
        let keys = config.catalogue.load().context("[catalogue]")?;
        let database = match &self.url {
            Some(url) => database::Config {
                url: url.clone(),
                ..config.database
            },
            None => config.database,
        };
        if let Some(url) = &self.nats {
            config.nats.url.clone_from(url);
        }
        config.nats.connect_timeout_ms = config.nats.connect_timeout_ms.min(CONNECT_MS);
        let is_named = self.nats.is_some() || self.config.is_some();
        let catalogue = Catalogue::open(&database).await.context("--database")?;
        Ok(Opened {
            catalogue: catalogue.sealed_with(keys),
            nats: is_named.then_some(config.nats),
        })
    }
}

impl Opened {
    /// Tells gateways of what is done; whether they know, as far as that was asked for.
    pub(super) async fn tell(&self, notices: &[Notice]) -> bool {
        let Some(config) = &self.nats else {
            let meant =
                |notice: &Notice| notice.what.ends_connections() || notice.what == What::Rules;
            if notices.iter().any(meant) {
                eprintln!(
                    "done in the database; gateways see it after [auth] cache_ttl_ms (devices: at the next login): name NATS (--nats) to tell them"
                );
            }
            return true;
        };
        let told = async {
            let link = Link::connect(config)
                .await
                .map_err(|error| error.to_string())?;
            let told = tell(&link.client, notices).await;
            told.map_err(|error| error.to_string())
        };
        match told.await {
            Ok(()) => true,
            Err(error) => {
                eprintln!(
                    "done in the database, but gateways are not told, and see it after [auth] cache_ttl_ms (devices: at the next login): {error}"
                );
                false
            }
        }
    }

    /// What all gateways say to a question; none if NATS was not named.
    pub(super) async fn ask(&self, question: &Ask) -> Result<Vec<Answer>> {
        let Some(config) = &self.nats else {
            return Ok(Vec::new());
        };
        let link = Link::connect(config).await?;
        Ok(ask(&link, question).await?)
    }
}

/// A device as it is written in one word.
pub(super) fn device(text: &str) -> Result<DeviceId, String> {
    let (product, name) = text.split_once('/').ok_or("expected PRODUCT/NAME")?;
    DeviceId::new(product, name).map_err(|error| error.to_string())
}
