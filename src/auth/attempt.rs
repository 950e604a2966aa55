//! What a CONNECT says about who it is, and what a step of the chain makes of it. Pure.
//!
//! Nothing here has a `Debug` form that shows a password or a token.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::access::Rules;
use crate::auth::denied::Denied;
use crate::catalogue::{Record, State};
use crate::device::{Certificate, Device, DeviceId, Scope};

/// What a CONNECT says about who it is. Has no `Debug`: it holds a password.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The address or path of the listener that it came through.
    pub listener: &'a str,
    /// Where it came from; none through a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The certificate that the TLS handshake verified.
    pub certificate: Option<&'a Certificate>,
    /// The client identifier.
    pub client_id: &'a str,
    /// The user name.
    pub username: Option<&'a str>,
    /// The password.
    pub password: Option<&'a [u8]>,
}

/// A login that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Who proved itself.
    pub device: Device,
    /// When what it proved itself with ends, and its connection with it, in Unix milliseconds; none: never.
    pub expires_ms: Option<u64>,
    /// The rules that come with what it proved itself with.
    pub rules: Rules,
    /// Whether the catalogue has the device, and it did not log in before.
    pub(super) is_first: bool,
}

impl Decision {
    /// What the catalogue holds about the device that proved itself.
    ///
    /// # Errors
    /// [`Denied::Disabled`] and [`Denied::Blocked`].
    pub(super) fn with(mut self, record: &Record) -> Result<Self, Denied> {
        match record.state {
            State::Enabled => {}
            State::Disabled => return Err(Denied::Disabled),
            State::Blocked => return Err(Denied::Blocked),
        }
        self.device.sub_devices = Arc::clone(&record.sub_devices);
        self.is_first = !record.is_activated;
        Ok(self)
    }

    /// A device that proved itself, and of which no more is known yet.
    pub(super) fn of(device: DeviceId) -> Self {
        Self {
            device: Device {
                id: device,
                scope: Scope::Full,
                sub_devices: [].into(),
                access: None,
            },
            expires_ms: None,
            rules: Rules::default(),
            is_first: false,
        }
    }

    /// Somebody who says that it is this device, proved nothing, and may do nothing but register.
    pub(super) fn to_register(device: DeviceId) -> Self {
        let mut decision = Self::of(device);
        decision.device.scope = Scope::Register;
        decision
    }
}

/// What a step answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The credentials prove it.
    Accept(Decision),
    /// These are credentials of the step's kind, and they prove nothing.
    Deny(Denied),
    /// These are no credentials of the step's kind: the next step is asked. With what is wrong with them if no other step takes
    /// them, where the step can tell.
    Pass(Option<Denied>),
}

#[cfg(test)]
impl<'a> Attempt<'a> {
    /// Over plain TCP, with nothing but a client identifier.
    pub(crate) fn of(client_id: &'a str) -> Self {
        Self {
            listener: "127.0.0.1:1883",
            peer: None,
            certificate: None,
            client_id,
            username: None,
            password: None,
        }
    }
}
