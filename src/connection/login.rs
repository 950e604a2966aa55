//! The login of one CONNECT, behind what protects it: rates and blocks before the authentication is asked, the device's own limits after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time;

use super::handshake::Refused;
use super::metrics::Rejected;
use super::wire::Wire;
use super::{Shared, authentication};
use crate::auth;
use crate::auth::Attempt;
use crate::auth::credentials::Identity;
use crate::device::{Device, DeviceId, Scope};
use crate::mapping::Mapping;
use crate::mqtt::{Connect, ReasonCode};
use crate::net::Origin;
use crate::protection::{Allowance, Reason, Source, Who};
use crate::session::connect::Agreement;
use crate::telemetry;

/// Where a CONNECT comes from.
pub(super) struct From<'a> {
    pub(super) origin: Box<Origin>,
    /// Its place among the connections of its address; taken by a login that succeeds.
    pub(super) source: &'a mut Option<Arc<Source>>,
}

/// Who the device is.
pub(super) struct Accepted {
    pub(super) device: Device,
    /// When its login ends, if it does; boxed, because few do.
    pub(super) login_ends: Option<Box<Instant>>,
    /// What it has of what is limited.
    pub(super) allowance: Option<Box<Allowance>>,
}

/// Lets a device in that proves who it is and is within its limits.
pub(super) async fn log_in(
    shared: &Shared,
    wire: &mut Wire,
    connect: &Connect,
    agreement: &mut Agreement,
    from: From<'_>,
    deadline: time::Instant,
) -> Result<Accepted, Refused> {
    let From { origin, source } = from;
    let peer = origin.peer;
    let protection = &shared.protection;
    let who = Who {
        peer,
        client_id: &connect.client_id,
        username: connect.username.as_deref(),
    };
    let note = |reason: Reason| {
        let device = claimed(shared, &connect.client_id);
        let detail = peer.map(|peer| peer.to_string());
        let detail = detail.as_deref().unwrap_or_default();
        protection
            .refusals
            .note_claimed(device.as_ref(), reason, detail);
    };
    let limited = |reason: Reason| Refused::with(reason.connack(), Rejected::Limited);
    protection
        .check(source.as_deref(), &who)
        .inspect_err(|reason| note(*reason))
        .map_err(limited)?;
    let proved = authenticate(shared, wire, connect, agreement, &origin, deadline).await;
    let (device, login_ends) = match proved {
        Ok(proved) => proved,
        Err(refused) => {
            if refused.rejected == Rejected::NotAuthorized {
                protection.denied(&who);
                note(Reason::Login);
            }
            return Err(refused);
        }
    };
    let key = Mapping::device_tokens(&device.id);
    let is_connected = shared.registry.find(&key).is_some();
    let allowance = protection.admit(&who, &device.id, is_connected, source);
    let allowance = allowance
        .inspect_err(|reason| protection.refusals.note(&device.id, *reason, 1, ""))
        .map_err(limited)?;
    Ok(Accepted {
        device,
        login_ends,
        allowance,
    })
}

/// The device that a stranger says to be, if it can be one.
fn claimed(shared: &Shared, client_id: &str) -> Option<DeviceId> {
    match shared.authenticator.scope() {
        Scope::Open => DeviceId::open(client_id).ok(),
        _ => Some(Identity::parse("client id", client_id).ok()?.device),
    }
}

async fn authenticate(
    shared: &Shared,
    wire: &mut Wire,
    connect: &Connect,
    agreement: &mut Agreement,
    origin: &Origin,
    deadline: time::Instant,
) -> Result<(Device, Option<Box<Instant>>), Refused> {
    match &connect.properties.authentication_method {
        None => {
            let attempt = Attempt {
                listener: origin.listener(),
                peer: origin.peer,
                certificate: origin.certificate.as_deref(),
                client_id: &connect.client_id,
                username: connect.username.as_deref(),
                password: connect.password.as_deref(),
            };
            let decision = shared.authenticator.authenticate(&attempt).await;
            let decision = decision.map_err(|error| login_refused(connect, &error))?;
            Ok((decision.device, decision.expires_ms.and_then(instant)))
        }
        Some(method) => {
            let (device, data) =
                authentication::exchange(shared, wire, connect, method, deadline).await?;
            let said = &mut agreement.connack.properties;
            said.authentication_method = Some(method.clone()); // [MQTT-4.12.0-5]
            said.authentication_data = data;
            Ok((device, None))
        }
    }
}

/// When it is this late by the clock, in Unix milliseconds.
fn instant(at_ms: u64) -> Option<Box<Instant>> {
    let left = Duration::from_millis(at_ms.saturating_sub(telemetry::now_unix_ms()));
    Instant::now().checked_add(left).map(Box::new)
}

pub(super) fn login_refused(connect: &Connect, error: &auth::Error) -> Refused {
    match error {
        auth::Error::Denied(reason) => {
            tracing::info!(client_id = %connect.client_id, %reason, "login denied");
            let answer = match reason {
                auth::Denied::ClientId(_) => ReasonCode::ClientIdentifierNotValid,
                auth::Denied::Disabled
                | auth::Denied::Blocked
                | auth::Denied::Refused(
                    auth::Refusal::OtherDevice(..) | auth::Refusal::NotAuthorized,
                ) => ReasonCode::NotAuthorized,
                _ => ReasonCode::BadUserNameOrPassword,
            };
            Refused::with(answer, Rejected::NotAuthorized)
        }
        auth::Error::Unavailable(reason) => {
            tracing::error!(client_id = %connect.client_id, %reason, "login impossible");
            Refused::with(ReasonCode::ServerUnavailable, Rejected::Unavailable)
        }
        auth::Error::Method => {
            Refused::with(ReasonCode::BadAuthenticationMethod, Rejected::Unsupported)
        }
    }
}
