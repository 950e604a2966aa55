//! Devices as the database holds them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::json;

use super::certificate::Fingerprint;
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
    /// Whether it logged in before: it does not register any more.
    pub is_activated: bool,
    /// The enabled sub-devices that it may act for, in the order of their bytes; none unless it is a gateway device.
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
    /// When it logged in for the first time, likewise; none if it never did. One that is older than registration counts from when it
    /// was added.
    pub activated_at_ms: Option<i64>,
    /// The gateway device that may act for it.
    pub gateway: Option<DeviceId>,
    pub(super) sealed: Sealed,
}

impl Listed {
    /// As JSON.
    #[must_use]
    pub fn described(&self) -> serde_json::Value {
        json!({
            "product": self.device.product(),
            "name": self.device.name(),
            "state": self.state,
            "created_at_ms": self.created_at_ms,
            "activated_at_ms": self.activated_at_ms,
            "gateway": self.gateway.as_ref().map(ToString::to_string),
        })
    }
}

/// A device with everything about it, except its secret.
pub struct Shown {
    /// As it is listed.
    pub listed: Listed,
    /// The sub-devices that it may act for, in the order of their bytes.
    pub sub_devices: Vec<DeviceId>,
    /// Its certificates.
    pub certificates: Vec<Fingerprint>,
}

impl Shown {
    /// As JSON.
    #[must_use]
    pub fn described(&self) -> serde_json::Value {
        let texts = |all: &[DeviceId]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let certificates = self.certificates.iter().map(ToString::to_string);
        let mut described = self.listed.described();
        if let Some(fields) = described.as_object_mut() {
            fields.insert("sub_devices".to_owned(), json!(texts(&self.sub_devices)));
            let certificates = json!(certificates.collect::<Vec<_>>());
            fields.insert("certificates".to_owned(), certificates);
        }
        described
    }
}
