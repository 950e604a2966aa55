//! Which steps there are: their names in the configuration, and the one `match` that asks them.

use std::time::Instant;

use crate::auth::attempt::{Attempt, Verdict};
use crate::auth::denied::Unavailable;
use crate::auth::step::{certificate, device, http, jwt, nats, password};
use crate::device::DeviceId;

/// A step's name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A certificate that the TLS handshake verified.
    Certificate,
    /// A device's secret: an HMAC over the user name, or SCRAM.
    Device,
    /// A JSON Web Token.
    Jwt,
    /// User name and password of an application.
    Password,
    /// A service that is asked over HTTP.
    Http,
    /// A service that is asked over NATS.
    Nats,
}

impl Kind {
    /// The same name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Device => "device",
            Self::Jwt => "jwt",
            Self::Password => "password",
            Self::Http => "http",
            Self::Nats => "nats",
        }
    }
}

/// A step, with what it needs.
pub(in crate::auth) enum Step {
    Certificate(Box<certificate::Holders>),
    Device(Box<device::Device>),
    Jwt(Box<jwt::Jwt>),
    Password(Box<password::Password>),
    Http(Box<http::Http>),
    Nats(Box<nats::Nats>),
}

impl Step {
    /// What the attempt proves.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be told.
    pub(in crate::auth) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        match self {
            Self::Device(device) => device.ask(now, attempt).await,
            // Boxed, so that a login with a device's secret takes no room for these.
            Self::Certificate(holders) => Box::pin(holders.ask(now, attempt)).await,
            Self::Jwt(jwt) => Box::pin(jwt.ask(now, attempt)).await,
            Self::Password(password) => Box::pin(password.ask(now, attempt)).await,
            Self::Http(http) => Box::pin(http.ask(now, attempt)).await,
            Self::Nats(nats) => Box::pin(nats.ask(now, attempt)).await,
        }
    }

    /// Forgets what it remembers of the catalogue, and has not from the records that all steps share.
    pub(in crate::auth) fn forget(&self) {
        if let Self::Certificate(holders) = self {
            holders.forget();
        }
    }
}

/// The device of `P&N` or `P/N`.
pub(super) fn names(text: &str) -> Option<DeviceId> {
    let (product, name) = text.split_once(['&', '/'])?;
    // A second separator would leave open which of them is meant.
    match name.contains(['&', '/']) {
        true => None,
        false => DeviceId::new(product, name).ok(),
    }
}
