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

/// Of a device whose CONNECT had an Authentication Method; others have none.
pub(super) struct Reauthentication {
    method: ByteString,
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
    pub(super) fn new(method: ByteString) -> Self {
        Self {
            method,
            stage: Stage::Idle,
            deadline: Instant::now(),
        }
    }

    pub(super) fn poll_stepped(&mut self, context: &mut Context<'_>) -> Poll<Stepped> {
        let Stage::Beginning(beginning) = &mut self.stage else {
            return Poll::Pending;
        };
        let stepped = ready!(beginning.as_mut().poll(context));
        self.stage = Stage::Idle;
        Poll::Ready(stepped)
    }

    /// By when what is under way must be over.
    pub(super) fn deadline(&self) -> Option<Instant> {
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
        let Some(this) = self
            .reauthentication
            .as_mut()
            .filter(|this| auth.authentication_method.as_ref() == Some(&this.method))
        else {
            return self.refuse(ReasonCode::ProtocolError);
        };
        let data = auth.authentication_data.unwrap_or_default();
        match (auth.reason, std::mem::replace(&mut this.stage, Stage::Idle)) {
            (ReasonCode::ReAuthenticate, Stage::Idle) => {
                let method = this.method.clone();
                let client_id = self.connection.client_id.clone();
                let begun = begin(Arc::clone(&self.shared), method, client_id, data);
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
                auth(ReasonCode::ContinueAuthentication, &this.method, data)
            }
            Step::Done { data, .. } => auth(ReasonCode::Success, &this.method, data),
        };
        self.send(packet);
    }

    /// Ends the connection of a device that began to prove itself and did not get to the end in time.
    pub(super) fn check_reauthentication(&mut self, now: Instant) {
        let is_blocked = self.inbound.is_blocked() || !self.may_read();
        let limit = self.reauthentication_limit();
        let Some(this) = &mut self.reauthentication else {
            return;
        };
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
