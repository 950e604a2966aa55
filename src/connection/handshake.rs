//! From an accepted socket to a live session: what its listener wants, CONNECT, agreement, login, ownership, CONNACK.
//!
//! A peer that does not finish in time costs a socket and a few hundred bytes for that long (G15).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{timeout, timeout_at};

use super::Shared;
use super::driver::Driver;
use super::metrics::Rejected;
use super::wire::Wire;
use crate::auth;
use crate::auth::acl::Action;
use crate::device::{Connection, Device};
use crate::mapping::Mapping;
use crate::mqtt::{Connect, Packet, Publish, ReasonCode, Version, Will};
use crate::net;
use crate::net::Accepted;
use crate::registry::{Limit, Mailbox};
use crate::session::Session;
use crate::session::connect::{Agreement, agree, refusal};
use crate::status::Slot;
use crate::telemetry;
use crate::uplink::Sender;

/// What a refused peer is told, and how that is counted.
struct Refused {
    answer: Option<ReasonCode>,
    rejected: Rejected,
}

impl Refused {
    fn silently(rejected: Rejected) -> Self {
        Self {
            answer: None,
            rejected,
        }
    }

    fn with(answer: ReasonCode, rejected: Rejected) -> Self {
        Self {
            answer: Some(answer),
            rejected,
        }
    }
}

/// Lets a peer in, or answers and closes; the driver's first output is the CONNACK.
pub(super) async fn handshake(
    shared: &Arc<Shared>,
    accepted: Accepted,
    number: u64,
) -> Option<Box<Driver>> {
    let limit = Duration::from_millis(shared.config.handshake_timeout_ms);
    let deadline = tokio::time::Instant::now() + limit;
    let opened = timeout_at(deadline, accepted.open()).await;
    let (socket, peer) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            let rejected = rejected_by(&error);
            shared.metrics.reject(rejected);
            tracing::debug!(
                ?rejected,
                error = &error as &dyn std::error::Error,
                "socket rejected"
            );
            return None;
        }
        Err(_) => {
            shared.metrics.reject(Rejected::Timeout);
            return None;
        }
    };
    let mut wire = Wire::new(socket, shared.config.connect_bytes_max);
    let admitted = match timeout_at(deadline, admit(shared, &mut wire)).await {
        Ok(admitted) => admitted,
        Err(_) => Err(on_timeout(&wire)),
    };
    match admitted {
        Ok(admitted) => {
            shared.metrics.accepted.inc();
            Some(admitted.into_driver(shared, wire, peer, number))
        }
        Err(refused) => {
            shared.metrics.reject(refused.rejected);
            if let Some(reason) = refused.answer {
                // The answer comes before the close, but nobody is waited for longer than for a handshake (G21).
                if wire.send(&Packet::Connack(refusal(reason))).is_ok() {
                    drop(timeout(limit, wire.finish()).await);
                    wire.linger().await;
                }
            }
            tracing::debug!(?peer, rejected = ?refused.rejected, answer = ?refused.answer, "connect rejected");
            None
        }
    }
}

fn rejected_by(error: &net::Error) -> Rejected {
    match error {
        net::Error::Proxy(_) => Rejected::Proxy,
        net::Error::Tls(_) => Rejected::Tls,
        net::Error::WebSocket(_) => Rejected::WebSocket,
        net::Error::Closed(_) => Rejected::SocketClosed,
    }
}

/// A peer that sent its CONNECT waits for us and is told so (G24); one that did not is just closed.
fn on_timeout(wire: &Wire) -> Refused {
    match wire.codec.version() {
        Some(_) => Refused::with(ReasonCode::ServerUnavailable, Rejected::Unavailable),
        None => Refused::silently(Rejected::Timeout),
    }
}

/// A device that may come in.
struct Admitted {
    connect: Box<Connect>,
    agreement: Agreement,
    device: Device,
    /// Room for the `connected` event and for the `disconnected` of a connection that is taken over.
    slots: (Slot, Slot),
}

async fn admit(shared: &Shared, wire: &mut Wire) -> Result<Admitted, Refused> {
    let connect = read_connect(wire).await?;
    let agreement = agree(&connect, &shared.session)
        .map_err(|reason| Refused::with(reason, Rejected::Unsupported))?;
    let device = shared
        .authenticator
        .authenticate(
            &connect.client_id,
            connect.username.as_deref(),
            connect.password.as_deref(),
        )
        .await
        .map_err(|error| login_refused(&connect, &error))?;
    if let Some(will) = &connect.will {
        // A Will passes the check of ordinary publishes, before it is accepted (G10).
        shared
            .uplink
            .authorize(&device, Action::Publish, will.topic.as_str())
            .map_err(|error| Refused::with(error.problem().reason, Rejected::NotAuthorized))?;
    }
    let slots = shared.status.two_slots().await;
    Ok(Admitted {
        connect,
        agreement,
        device,
        slots,
    })
}

async fn read_connect(wire: &mut Wire) -> Result<Box<Connect>, Refused> {
    loop {
        match wire.decode() {
            Ok(Some(Packet::Connect(connect))) => return Ok(connect),
            Ok(Some(_)) => return Err(Refused::silently(Rejected::Malformed)), // [MQTT-3.1.0-1]
            Ok(None) => {}
            Err(error) if error.reason == ReasonCode::UnsupportedProtocolVersion => {
                // 3.1.1 demands its return code 1, 5 allows any answer: whoever asks for another version or protocol,
                // such as MQTT 3.1, gets the former [MQTT-3.1.2-2].
                wire.codec.set_version(Version::V3_1_1);
                return Err(Refused::with(error.reason, Rejected::Unsupported));
            }
            Err(error) => {
                tracing::debug!(%error, "malformed CONNECT");
                // MQTT 5 has codes for it; 3.1.1 has none, and closes [MQTT-3.1.4-1].
                let is_v5 = wire.codec.version() == Some(Version::V5);
                return Err(Refused {
                    answer: is_v5.then_some(error.reason),
                    rejected: Rejected::Malformed,
                });
            }
        }
        match std::future::poll_fn(|context| wire.poll_read(context)).await {
            Ok(0) | Err(_) => return Err(Refused::silently(Rejected::SocketClosed)),
            Ok(_) => {}
        }
    }
}

fn login_refused(connect: &Connect, error: &auth::Error) -> Refused {
    match error {
        auth::Error::Denied(reason) => {
            tracing::info!(client_id = %connect.client_id, %reason, "login denied");
            Refused::with(ReasonCode::BadUserNameOrPassword, Rejected::NotAuthorized)
        }
        auth::Error::Unavailable(reason) => {
            tracing::error!(client_id = %connect.client_id, %reason, "login impossible");
            Refused::with(ReasonCode::ServerUnavailable, Rejected::Unavailable)
        }
    }
}

impl Admitted {
    /// Takes the device's place in the registry; the status events follow the order of ownership.
    fn into_driver(
        self,
        shared: &Arc<Shared>,
        mut wire: Wire,
        peer: Option<SocketAddr>,
        number: u64,
    ) -> Box<Driver> {
        let connection_id: Box<str> = format!("{}.{number}", shared.run).into();
        let tokens: Box<str> = Mapping::device_tokens(&self.device.id).into();
        let (connected, disconnected) = self.slots;
        let now = telemetry::now();
        let mailbox = shared.registry.take(&tokens, |previous| {
            let connection = Connection {
                device: self.device.id.clone(),
                client_id: (*self.connect.client_id).into(),
                connection_id: connection_id.clone(),
                epoch: shared.next_epoch(u64::try_from(now.as_micros()).unwrap_or(0)),
                version: self.connect.version.as_str(),
                peer,
                connected_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            };
            if let Some(previous) = previous {
                shared.status.taken_over(disconnected, previous);
            }
            shared.status.connected(connected, &connection);
            Mailbox::new(
                connection,
                Limit {
                    messages: shared.config.downlink_queue_max,
                    bytes: shared.config.downlink_queue_bytes_max,
                },
            )
        });
        wire.codec
            .set_packet_bytes_max(shared.session.packet_bytes_max);
        wire.codec
            .set_peer_packet_bytes_max(self.agreement.downlink_packet_bytes_max);
        let session = Session::new(self.agreement, &shared.session, Instant::now());
        let sender = Sender {
            device: self.device,
            tokens,
            connection_id,
            trace: u64::from_str_radix(&shared.run, 16).unwrap_or(0) ^ number.rotate_left(32),
            receipts: Arc::default(),
            accepted: 0,
        };
        let will = self.connect.will.map(|will| Box::new(will_message(will)));
        Box::new(Driver::new(
            Arc::clone(shared),
            wire,
            session,
            sender,
            mailbox,
            will,
        ))
    }
}

/// The PUBLISH that a Will becomes.
fn will_message(will: Will) -> Publish {
    Publish {
        dup: false,
        qos: will.qos,
        retain: false,
        topic: will.topic.as_str().into(),
        packet_id: None,
        properties: will.properties,
        payload: will.payload,
    }
}
