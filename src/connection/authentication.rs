//! Enhanced authentication before CONNACK (MQTT 5 §4.12): the AUTH packets that carry an [`Exchange`](crate::auth::Exchange).
//!
//! What the data mean is the exchange's matter. Until CONNACK a device says nothing but AUTH and DISCONNECT, each AUTH in its turn
//! and with CONNECT's method; it is told only which of these it broke, or that it is not let in.

use bytes::Bytes;
use bytestring::ByteString;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::handshake::read_more;
use super::login::login_refused;
use super::metrics::Rejected;
use super::refused::Refused;
use super::wire::Wire;
use crate::auth::Step;
use crate::device::Device;
use crate::mqtt::{Auth, Connect, Packet, ReasonCode, UserProperties};

/// An AUTH to a device; no data is said by none.
pub(super) fn auth(reason: ReasonCode, method: &ByteString, data: Bytes) -> Packet {
    Packet::Auth(Auth {
        reason,
        authentication_method: Some(method.clone()), // [MQTT-4.12.0-5]
        authentication_data: said(data),
        reason_string: None,
        user: UserProperties::default(),
    })
}

fn said(data: Bytes) -> Option<Bytes> {
    (!data.is_empty()).then_some(data)
}

/// The device that a CONNECT with an Authentication Method proves to be, and the authentication data of its CONNACK.
pub(super) async fn exchange(
    shared: &Shared,
    wire: &mut Wire,
    connect: &Connect,
    method: &ByteString,
    deadline: Instant,
) -> Result<(Device, Option<Bytes>), Refused> {
    let refused = |error| login_refused(connect, &error); // [MQTT-4.12.0-1], [MQTT-4.12.0-4]
    let begun = shared.authenticator.begin(method, &connect.client_id).await;
    let mut exchange = begun.map_err(refused)?;
    let mut data = connect.properties.authentication_data.clone();
    loop {
        let step = exchange.step(data.as_deref().unwrap_or_default());
        let challenge = match step.map_err(refused)? {
            Step::Done { device, data } => return Ok((device, said(data))),
            Step::Continue(challenge) => challenge,
        };
        // [MQTT-4.12.0-2]
        let challenge = auth(ReasonCode::ContinueAuthentication, method, challenge);
        wire.send(&challenge)
            .map_err(|error| Refused::with(error.reason, Rejected::Unsupported))?;
        let answer = async {
            match wire.flush().await {
                Ok(()) => read_auth(wire, method).await,
                Err(_) => Err(Refused::silently(Rejected::SocketClosed)),
            }
        };
        data = match timeout_at(deadline, answer).await {
            Ok(answer) => answer?.authentication_data,
            // Whoever waits here waits for the device, so that it hears no excuse.
            Err(_) => return Err(Refused::with(ReasonCode::NotAuthorized, Rejected::Timeout)),
        };
    }
}

/// The device's next step.
async fn read_auth(wire: &mut Wire, method: &ByteString) -> Result<Auth, Refused> {
    loop {
        match wire.decode() {
            // [MQTT-4.12.0-3], [MQTT-4.12.0-5]
            Ok(Some(Packet::Auth(auth)))
                if auth.reason == ReasonCode::ContinueAuthentication
                    && auth.authentication_method.as_ref() == Some(method) =>
            {
                return Ok(auth);
            }
            Ok(Some(Packet::Disconnect(_))) => {
                return Err(Refused::silently(Rejected::SocketClosed));
            }
            // [MQTT-3.1.2-30]
            Ok(Some(_)) => {
                return Err(Refused::with(
                    ReasonCode::ProtocolError,
                    Rejected::Malformed,
                ));
            }
            Ok(None) => read_more(wire).await?,
            Err(error) => return Err(Refused::with(error.reason, Rejected::Malformed)),
        }
    }
}
