//! Why a login gave no device: denied, not to be checked now, or by an unknown method. For the log and the metrics.
//!
//! Invariant: no message shows a secret, a token or a password.

use std::time::Duration;

use crate::auth::{credentials, scram};
use crate::catalogue;
use crate::device::{self, DeviceId};

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
    /// The source has no usable answer. The text holds nothing of the login.
    #[error("no usable answer: {0}")]
    Source(String),
    /// Keys that tokens are verified with are not there, and neither is who would know of them.
    #[error("no keys to verify the token with")]
    Keys,
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
    /// For a reason of a step's own.
    #[error(transparent)]
    Refused(Refusal),
}

/// Why a step denies a login, or all of them do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Credentials of a device whose name is not in the client id.
    #[error("the client id names another device than the {0}, which is of {1}")]
    OtherDevice(&'static str, DeviceId),
    /// No step of the chain takes such credentials.
    #[error("no credentials that a step of the chain takes")]
    Nothing,
    /// A JSON Web Token, with what is wrong in it.
    #[error("token: {0}")]
    Token(&'static str),
    /// An application's password.
    #[error("wrong password")]
    Password,
    /// A service that was asked says that the credentials prove nothing.
    #[error("denied by the service that was asked")]
    Hook,
    /// A user name whose expiry is over, too far ahead or none.
    #[error("user name has expired, or not within the time that is allowed")]
    Expiry,
    /// A user name of an earlier login.
    #[error("user name was used before")]
    Reused,
    /// A service that was asked says that the device may not come in.
    #[error("not authorized by the service that was asked")]
    NotAuthorized,
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
            Self::Refused(Refusal::OtherDevice(..)) => "other_device",
            Self::Refused(Refusal::Nothing) => "nothing",
            Self::Refused(Refusal::Token(_)) => "jwt",
            Self::Refused(Refusal::Password) => "wrong_password",
            Self::Refused(Refusal::Expiry) => "expiry",
            Self::Refused(Refusal::Reused) => "reused",
            Self::Refused(Refusal::Hook) => "hook",
            Self::Refused(Refusal::NotAuthorized) => "not_authorized",
        }
    }
}
