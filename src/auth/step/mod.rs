//! The steps of the authentication chain, a file each. All answer an attempt with the same verdict.
//!
//! A step knows one kind of credentials. It passes on what is of another kind, and denies what is of its own and proves nothing; a
//! source that does not answer is [`Unavailable`], never a denial (G24).

mod device;

pub(super) use device::claimed;

use std::sync::Arc;
use std::time::Instant;

use crate::auth::attempt::{Attempt, Verdict};
use crate::auth::denied::Unavailable;
use crate::auth::records::Records;

/// A step's name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A device's secret: an HMAC over the user name, or SCRAM.
    Device,
}

impl Kind {
    /// The same name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
        }
    }
}

/// A step, with what it needs.
pub(super) enum Step {
    Device(Arc<Records>),
}

impl Step {
    /// What the attempt proves.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be told.
    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        match self {
            Self::Device(records) => device::ask(records, now, attempt).await,
        }
    }
}
