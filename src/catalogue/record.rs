//! Devices as the database holds them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::sealing::Sealed;
use crate::auth::credentials::Secret;
use crate::device::DeviceId;

/// Whether a device may log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It may.
    Enabled,
    /// It is switched off.
    Disabled,
    /// It is shut out, because of what it did.
    Blocked,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Enabled, Self::Disabled, Self::Blocked];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
        }
    }

    /// Its number in the database.
    pub(super) fn number(self) -> i16 {
        match self {
            Self::Disabled => 0,
            Self::Enabled => 1,
            Self::Blocked => 2,
        }
    }

    /// What a number means; one that is not known lets nobody in.
    pub(super) fn of(number: i64) -> Self {
        match number {
            1 => Self::Enabled,
            0 => Self::Disabled,
            _ => Self::Blocked,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or("expected enabled, disabled or blocked")
    }
}

/// A device as a login needs it. Has no `Debug`: it holds a secret.
#[derive(Clone)]
pub struct Record {
    /// Its identity.
    pub device: DeviceId,
    /// What it proves its logins with.
    pub secret: Secret,
    /// Whether it may log in.
    pub state: State,
    /// When it was added, in milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// The sub-devices that it may act for, in the order of their bytes; none unless it is a gateway device.
    pub sub_devices: Arc<[DeviceId]>,
}

/// A device as it is listed: without its secret, which [`Catalogue::secret`](super::Catalogue::secret) opens.
pub struct Listed {
    /// Its identity.
    pub device: DeviceId,
    /// Whether it may log in.
    pub state: State,
    /// When it was added, in milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// The gateway device that may act for it.
    pub gateway: Option<DeviceId>,
    pub(super) sealed: Sealed,
}
