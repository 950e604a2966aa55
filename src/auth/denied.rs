//! Why a login gave no device: denied, not to be checked now, or by an unknown method. For the log and the metrics.
//!
//! Invariant: no message shows a secret, a token or a password.

use std::time::Duration;

use crate::auth::{credentials, scram};
use crate::catalogue;
use crate::device;

/// Why a login did not give a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device did not prove itself, or may not log in.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It is not known whether the device proved itself: the server is unavailable to it.
    #[error("login cannot be checked")]
    Unavailable(#[from] Unavailable),
    /// A method of enhanced authentication that is not known here.
    #[error("authentication method: expected {}", scram::METHOD)]
    Method,
}

/// Why it is not known whether a login proves anything.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The database of devices has no answer.
    #[error(transparent)]
    Database(#[from] catalogue::Error),
    /// It takes too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It failed so often lately that it is left alone for a while.
    #[error("not asked again yet after failures in a row")]
    Broken,
}

/// Why a login is denied. A device is told no more than whether it may not come in or did not prove itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A client identifier that can be nobody's in the open profile.
    #[error("client id: {0}")]
    ClientId(device::Error),
    /// Malformed or wrong credentials.
    #[error(transparent)]
    Credentials(credentials::Error),
    /// Malformed or wrong messages of a SCRAM exchange.
    #[error(transparent)]
    Scram(scram::Error),
    /// Not in the database.
    #[error("unknown device")]
    UnknownDevice,
    /// In the database and proved, but disabled there.
    #[error("device is disabled")]
    Disabled,
    /// In the database and proved, but blocked there.
    #[error("device is blocked")]
    Blocked,
    /// A client id `register&…`.
    #[error("dynamic registration is not available")]
    Registration,
}

impl Denied {
    /// The reason's fixed name in the metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        use credentials::Error;
        match self {
            Self::ClientId(_) => "client_id",
            Self::Credentials(Error::Identity(_) | Error::Name(..) | Error::Separator(..)) => {
                "identity"
            }
            Self::Credentials(Error::Username) => "username",
            Self::Credentials(Error::Mismatch) => "mismatch",
            Self::Credentials(Error::Password) => "password",
            Self::Credentials(Error::Token) => "token",
            Self::Credentials(Error::Secret) => "secret",
            Self::Scram(scram::Error::Mismatch) => "mismatch",
            Self::Scram(scram::Error::Proof) => "proof",
            Self::Scram(_) => "exchange",
            Self::UnknownDevice => "unknown_device",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Registration => "registration",
        }
    }
}
