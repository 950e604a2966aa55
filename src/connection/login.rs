//! Who a CONNECT is: by the chain of steps, or by an exchange of AUTH packets; and what is told to who is nobody.

use std::time::{Duration, Instant};

use super::metrics::Rejected;
use super::refused::Refused;
use super::wire::Wire;
use super::{Shared, authentication};
use crate::access::Rules;
use crate::auth;
use crate::auth::{Attempt, Decision};
use crate::device::Device;
use crate::mqtt::{Connect, ReasonCode};
use crate::net::Origin;
use crate::session::connect::Agreement;
use crate::telemetry;

/// The device that a CONNECT proves to be, and when its login ends, if it does.
pub(super) async fn login(
    shared: &Shared,
    wire: &mut Wire,
    origin: Box<Origin>,
    connect: &Connect,
    agreement: &mut Agreement,
    deadline: tokio::time::Instant,
) -> Result<(Device, Option<Instant>), Refused> {
    let Some(method) = &connect.properties.authentication_method else {
        // Boxed, so that a login takes room for no longer than it lasts.
        let accepted = Box::pin(ask(shared, origin, connect)).await?;
        let device = shared.with_rules(accepted.device, accepted.rules, &connect.client_id);
        return Ok((device, accepted.expires_ms.and_then(instant)));
    };
    let (device, data) = authentication::exchange(shared, wire, connect, method, deadline).await?;
    let said = &mut agreement.connack.properties;
    said.authentication_method = Some(method.clone()); // [MQTT-4.12.0-5]
    said.authentication_data = data;
    let device = shared.with_rules(device, Rules::default(), &connect.client_id);
    Ok((device, None))
}

async fn ask(shared: &Shared, origin: Box<Origin>, connect: &Connect) -> Result<Decision, Refused> {
    let attempt = Attempt {
        listener: origin.listener(),
        peer: origin.peer,
        certificate: origin.certificate.as_deref(),
        client_id: &connect.client_id,
        username: connect.username.as_deref(),
        password: connect.password.as_deref(),
    };
    let decision = shared.authenticator.authenticate(&attempt).await;
    decision.map_err(|error| login_refused(connect, &error))
}

/// When it is this late by the clock, in Unix milliseconds.
fn instant(at_ms: u64) -> Option<Instant> {
    let left = Duration::from_millis(at_ms.saturating_sub(telemetry::now_unix_ms()));
    Instant::now().checked_add(left)
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
            Refused::unavailable()
        }
        auth::Error::Method => {
            Refused::with(ReasonCode::BadAuthenticationMethod, Rejected::Unsupported)
        }
    }
}
