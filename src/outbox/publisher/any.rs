//! The broker that the configuration names.

use super::{JetStream, Publisher};
use crate::jetstream::Link;
use crate::outbox::config::{Broker, Config};
use crate::outbox::store::{Answer, Row};

/// Any of the brokers.
pub enum Any {
    /// JetStream.
    JetStream(JetStream),
}

/// Why a broker cannot be used at all; one that is away is no such reason.
#[derive(Debug, thiserror::Error)]
#[error("outbox.publisher: {0}")]
pub struct Error(pub String);

impl Any {
    /// The one that `config` names; `link` is what JetStream is reached over.
    ///
    /// # Errors
    /// [`Error`] when its settings cannot be used.
    pub async fn open(config: &Config, link: &Link) -> Result<Self, Error> {
        match config.publisher {
            Broker::JetStream => Ok(Self::JetStream(JetStream::new(link, config.publish_max()))),
        }
    }
}

impl Publisher for Any {
    async fn publish(&self, rows: &[Row]) -> Vec<Answer> {
        match self {
            Self::JetStream(publisher) => publisher.publish(rows).await,
        }
    }

    async fn reachable(&self) {
        match self {
            Self::JetStream(publisher) => publisher.reachable().await,
        }
    }
}
