//! Whether one CONNECT comes in: rates and blocks before the login is asked, the device's own limits behind it.

use std::sync::Arc;
use std::time::Instant;

use tokio::time;

use super::metrics::Rejected;
use super::refused::Refused;
use super::wire::Wire;
use super::{Shared, login};
use crate::auth::credentials::Identity;
use crate::device::{Device, DeviceId, Scope};
use crate::mapping::Mapping;
use crate::mqtt::Connect;
use crate::net::Origin;
use crate::protection::{Allowance, Reason, Source, Who};
use crate::session::connect::Agreement;

/// Where a CONNECT comes from.
pub(super) struct From<'a> {
    pub(super) origin: Box<Origin>,
    /// Its place among the connections of its address; taken by a login that succeeds.
    pub(super) source: &'a mut Option<Arc<Source>>,
}

/// Who the device is.
pub(super) struct Accepted {
    pub(super) device: Device,
    /// When its login ends, if it does.
    pub(super) login_ends: Option<Instant>,
    /// What it has of what is limited.
    pub(super) allowance: Option<Box<Allowance>>,
}

/// Lets a device in that proves who it is and is within its limits.
pub(super) async fn admit(
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
    let proved = login::login(shared, wire, origin, connect, agreement, deadline).await;
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
