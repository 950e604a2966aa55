//! Re-authentication (MQTT 5 §4.12.1): a device that logged in by an Authentication Method proves itself again, whenever it wants to.
//!
//! Everything else goes on meanwhile: the look-up of the device is one more thing that the driver waits for, a step takes no time.
//! Whoever proves itself is the device that it was, so success changes nothing; every failure ends the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use bytestring::ByteString;

use super::Shared;
use super::authentication::auth;
use super::driver::Driver;
use crate::auth;
use crate::auth::{Exchange, Step};
use crate::mqtt::{Auth, ReasonCode};
use crate::session::CloseReason;

/// What the device's data led to, and the exchange, which may go on.
pub(super) type Stepped = Result<(Exchange, Step), auth::Error>;

/// Of a device whose login is not for good: its CONNECT had an Authentication Method, or what it proved itself with ends. Others have
/// none.
pub(super) struct Reauthentication {
    method: Option<ByteString>,
    /// When the login ends, if it does.
    ends: Option<Instant>,
    stage: Stage,
    /// By when what is under way must be over.
    deadline: Instant,
}

enum Stage {
    Idle,
    /// The device is looked up, for its first data.
    Beginning(Pin<Box<dyn Future<Output = Stepped> + Send>>),
    /// It is the device's turn.
    Exchanging(Exchange),
}

impl Reauthentication {
    /// None for a login that is for good.
    pub(super) fn of(method: Option<ByteString>, ends: Option<Instant>) -> Option<Box<Self>> {
        let is_for_good = method.is_none() && ends.is_none();
        (!is_for_good).then(|| {
            Box::new(Self {
                method,
                ends,
                stage: Stage::Idle,
                deadline: Instant::now(),
            })
        })
    }

    pub(super) fn poll_stepped(&mut self, context: &mut Context<'_>) -> Poll<Stepped> {
        let Stage::Beginning(beginning) = &mut self.stage else {
            return Poll::Pending;
        };
        let stepped = ready!(beginning.as_mut().poll(context));
        self.stage = Stage::Idle;
        Poll::Ready(stepped)
    }

    /// When there is something to be done.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ends.into_iter().chain(self.deadline()).min()
    }

    /// By when what is under way must be over.
    fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Idle => None,
            Stage::Beginning(_) | Stage::Exchanging(_) => Some(self.deadline),
        }
    }
}

impl Driver {
    /// An AUTH from the device.
    pub(super) fn handle_auth(&mut self, auth: Auth) {
        let now = Instant::now();
        self.session.handle_bytes(now);
        let limit = self.reauthentication_limit();
        // [MQTT-4.12.0-7], [MQTT-4.12.1-1]
        let method = auth.authentication_method;
        let (Some(method), Some(this)) = (method.as_ref(), self.reauthentication.as_mut()) else {
            return self.refuse(ReasonCode::ProtocolError);
        };
        if this.method.as_ref() != Some(method) {
            return self.refuse(ReasonCode::ProtocolError);
        }
        let data = auth.authentication_data.unwrap_or_default();
        match (auth.reason, std::mem::replace(&mut this.stage, Stage::Idle)) {
            (ReasonCode::ReAuthenticate, Stage::Idle) => {
                let client_id = self.connection.client_id.clone();
                let begun = begin(Arc::clone(&self.shared), method.clone(), client_id, data);
                this.deadline = now + limit;
                this.stage = Stage::Beginning(Box::pin(begun));
            }
            // [MQTT-4.12.0-3]
            (ReasonCode::ContinueAuthentication, Stage::Exchanging(exchange)) => {
                self.handle_stepped(step(exchange, &data));
            }
            _ => self.refuse(ReasonCode::ProtocolError),
        }
    }

    /// Tells the device what its data led to.
    pub(super) fn handle_stepped(&mut self, stepped: Stepped) {
        let Some(this) = &mut self.reauthentication else {
            return;
        };
        let method = this.method.clone().unwrap_or_default();
        let (exchange, step) = match stepped {
            Ok(stepped) => stepped,
            Err(error) => {
                let device = &self.sender.device.id;
                let reason = match error {
                    // DISCONNECT has no word for a server that is unavailable.
                    auth::Error::Unavailable(_) => ReasonCode::ServerBusy,
                    auth::Error::Denied(_) | auth::Error::Method => ReasonCode::NotAuthorized,
                };
                tracing::info!(%device, error = &error as &dyn std::error::Error, "re-authentication failed");
                // [MQTT-4.12.1-2]
                self.closing = Some(CloseReason::Authentication(reason));
                return;
            }
        };
        let packet = match step {
            Step::Continue(data) => {
                this.stage = Stage::Exchanging(exchange);
                // [MQTT-4.12.0-2]
                auth(ReasonCode::ContinueAuthentication, &method, data)
            }
            Step::Done { data, .. } => auth(ReasonCode::Success, &method, data),
        };
        self.send(packet);
    }

    /// Ends the connection of a device whose login ends, or that began to prove itself and did not get to the end in time.
    pub(super) fn check_reauthentication(&mut self, now: Instant) {
        let is_blocked = self.inbound.is_blocked() || !self.may_read();
        let limit = self.reauthentication_limit();
        let Some(this) = &mut self.reauthentication else {
            return;
        };
        if this.ends.is_some_and(|end| now >= end) {
            tracing::info!(device = %self.sender.device.id, "login has expired");
            self.closing = Some(CloseReason::Authentication(ReasonCode::NotAuthorized));
            return;
        }
        if this.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if is_blocked {
            // Its next step may lie behind what we do not handle yet.
            this.deadline = now + limit;
            return;
        }
        tracing::info!(device = %self.sender.device.id, "re-authentication not finished in time");
        self.closing = Some(CloseReason::Authentication(ReasonCode::NotAuthorized));
    }

    fn reauthentication_limit(&self) -> Duration {
        Duration::from_millis(self.shared.config.handshake_timeout_ms)
    }
}

async fn begin(
    shared: Arc<Shared>,
    method: ByteString,
    client_id: Box<str>,
    data: Bytes,
) -> Stepped {
    let exchange = shared.authenticator.begin(&method, &client_id).await?;
    step(exchange, &data)
}

fn step(mut exchange: Exchange, data: &[u8]) -> Stepped {
    let step = exchange.step(data)?;
    Ok((exchange, step))
}
