//! Why the catalogue did not do what was asked.

use std::time::Duration;

use super::sealing;
use crate::database;
use crate::device::{self, DeviceId};

/// Why the catalogue did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database, or its tables.
    #[error(transparent)]
    Open(#[from] database::Error),
    /// No answer, with what was asked.
    #[error("database: cannot {0}")]
    Database(&'static str, #[source] sqlx::Error),
    /// No answer in time.
    #[error("database: no answer within {0:?}")]
    Timeout(Duration),
    /// The device is there already.
    #[error("device {0} exists already")]
    Exists(DeviceId),
    /// A product id or device name that no device can have.
    #[error(transparent)]
    Name(#[from] device::Error),
    /// A secret that cannot be made, sealed or opened.
    #[error(transparent)]
    Sealing(#[from] sealing::Error),
    /// Nothing like that is there.
    #[error("there is no {0}")]
    Unknown(String),
    /// What is there is in the way.
    #[error("{0}")]
    Conflict(String),
}

impl Error {
    /// Whether the database answered, and what is there does not allow what was asked.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Exists(_) | Self::Unknown(_) | Self::Conflict(_))
    }
}
