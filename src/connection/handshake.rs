//! From an accepted socket to a live session: what its listener wants, CONNECT, agreement, login, ownership, CONNACK.
//!
//! A peer that does not finish in time costs a socket and a few hundred bytes for that long (G15).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::admitting::{self, From};
use super::driver::{Driver, Owned};
use super::metrics::Rejected;
use super::reauthentication::Reauthentication;
use super::refused::Refused;
use super::registering::Registering;
use super::wire::Wire;
use super::{Shared, afterlife, attachment, place, releasing};
use crate::access::{Action, Rules};
use crate::device::{Connection, Device, Scope};
use crate::downlink::Delivery;
use crate::jetstream::Receipts;
use crate::mapping::Mapping;
use crate::mqtt::{Connect, Packet, Publish, ReasonCode, Version, Will};
use crate::net;
use crate::net::Accepted;
use crate::ownership::{self, Before, Claim, Held, Request, Turn, WillMessage};
use crate::protection::{Allowance, Source};
use crate::registry::Mailbox;
use crate::session::connect::{Agreement, agree};
use crate::session::{Session, Start};
use crate::status::Slot;
use crate::tasks::OnExit;
use crate::telemetry;
use crate::uplink::Sender;

/// Lets a peer in, or answers and closes; the driver's first output is the CONNACK. `shutdown` ends what a peer is waited for.
pub(super) async fn handshake(
    shared: &Arc<Shared>,
    accepted: Accepted,
    number: u64,
    shutdown: &CancellationToken,
) -> Option<Box<Driver>> {
    let limit = Duration::from_millis(shared.config.handshake_timeout_ms);
    let heard = tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        heard = hear(shared, accepted, limit) => heard,
    };
    let Heard {
        wire,
        peer,
        source: _kept,
        admitted,
    } = heard?;
    let entered = match admitted {
        Ok(Entry::Registering(asked)) => {
            let (agreement, device, _kept) = *asked;
            let registering = Registering::new(shared, device, agreement)?;
            shared.metrics.accepted.inc();
            Box::pin(registering.run(wire, shutdown)).await;
            return None;
        }
        // Nothing cuts it off: what was begun to be claimed is either held or not, and that must be known. Boxed, so that it takes
        // no room while others have their turn.
        Ok(Entry::Device(admitted)) => Box::pin(admitted.enter(shared, wire, peer, number)).await,
        Err(refused) => Err((wire, refused)),
    };
    match entered {
        Ok(driver) => {
            shared.metrics.accepted.inc();
            Some(driver)
        }
        Err((wire, refused)) => {
            tracing::debug!(?peer, rejected = ?refused.rejected, answer = ?refused.answer, "connect rejected");
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = refused.tell(shared, wire, limit) => {}
            }
            None
        }
    }
}

/// What a peer said in time.
struct Heard {
    wire: Wire,
    peer: Option<SocketAddr>,
    /// Kept while a peer that is refused has a socket.
    source: Option<Arc<Source>>,
    /// Boxed: it takes room only once it is there.
    admitted: Result<Entry, Refused>,
}

/// Opens the connection and reads CONNECT.
async fn hear(shared: &Shared, mut accepted: Accepted, limit: Duration) -> Option<Heard> {
    let deadline = tokio::time::Instant::now() + limit;
    let identified = timeout_at(deadline, accepted.identify()).await;
    let peer = opened(shared, identified)?;
    let Ok(mut source) = shared.protection.enter(peer) else {
        shared.metrics.reject(Rejected::Limited);
        return None;
    };
    let (socket, origin) = opened(shared, timeout_at(deadline, accepted.open()).await)?;
    let mut wire = Wire::new(socket, shared.config.connect_bytes_max);
    let from = From {
        origin,
        source: &mut source,
    };
    let admitted = match timeout_at(deadline, admit(shared, &mut wire, from, deadline)).await {
        Ok(admitted) => admitted,
        Err(_) => Err(Refused::late(&wire)),
    };
    Some(Heard {
        wire,
        peer,
        source,
        admitted,
    })
}

/// What a peer opened, unless it did not, or not in time.
fn opened<T>(shared: &Shared, opened: Result<Result<T, net::Error>, Elapsed>) -> Option<T> {
    let rejected = match opened {
        Ok(Ok(opened)) => return Some(opened),
        Ok(Err(error)) => {
            let rejected = Rejected::by(&error);
            let error = &error as &dyn std::error::Error;
            tracing::debug!(?rejected, error, "socket rejected");
            rejected
        }
        Err(_) => Rejected::Timeout,
    };
    shared.metrics.reject(rejected);
    None
}

/// Who may come in.
enum Entry {
    Device(Box<Admitted>),
    /// A device without a secret, to register itself.
    Registering(Box<(Agreement, Device, Option<Box<Allowance>>)>),
}

/// A device that may come in.
struct Admitted {
    connect: Box<Connect>,
    agreement: Agreement,
    device: Device,
    /// When its login ends, if it does.
    login_ends: Option<Instant>,
    /// What it has of what is limited.
    allowance: Option<Box<Allowance>>,
    /// Kept until its session is claimed.
    turn: Turn,
    /// When it began to prove who it is.
    begun: Instant,
    /// Room for the `connected` event, and for both events of a connection that cannot say so itself.
    slots: [Slot; 3],
}

async fn admit(
    shared: &Shared,
    wire: &mut Wire,
    from: From<'_>,
    deadline: tokio::time::Instant,
) -> Result<Entry, Refused> {
    let mut connect = read_connect(wire).await?;
    let mut agreement = agree(&connect, &shared.session)
        .map_err(|reason| Refused::with(reason, Rejected::Unsupported))?;
    wire.codec
        .set_peer_packet_bytes_max(agreement.downlink_packet_bytes_max);
    if connect.client_id.is_empty() {
        let assigned = shared.assigned_client_id();
        if connect.version == Version::V5 {
            // [MQTT-3.1.3-7]
            agreement.connack.properties.assigned_client_identifier = Some(assigned.clone());
        }
        connect.client_id = assigned; // [MQTT-3.1.3-6]
    }
    let begun = Instant::now();
    // Boxed, so that it takes room for no longer than it lasts.
    let login = admitting::admit(shared, wire, &connect, &mut agreement, from, deadline);
    let admitting::Accepted {
        device,
        login_ends,
        allowance,
    } = Box::pin(login).await?;
    if device.scope == Scope::Open && connect.client_id.is_empty() {
        connect.client_id = device.id.client_id().into_owned().into();
        let assigned = (connect.version == Version::V5).then(|| connect.client_id.clone());
        agreement.connack.properties.assigned_client_identifier = assigned; // [MQTT-3.1.3-7]
    }
    check_will(shared, &device, &connect)?;
    // Before anything is claimed: a CONNACK has nothing that could be left out of it [MQTT-3.1.2-24].
    let connack = Packet::Connack(agreement.connack.clone());
    wire.codec
        .encode(&connack, &mut BytesMut::new())
        .map_err(|error| Refused::with(error.reason, Rejected::Unsupported))?;
    if device.scope == Scope::Register {
        return Ok(Entry::Registering(Box::new((agreement, device, allowance))));
    }
    wire.codec
        .set_packet_bytes_max(shared.session.packet_bytes_max);
    // Looked at before an earlier connection has to give way.
    if !shared.ownership.is_reachable().await {
        tracing::info!(device = %device.id, "told to come again: no session can be claimed now");
        return Err(Refused::unavailable());
    }
    let turn = shared.ownership.turn().await;
    let slots = shared.status.slots().await;
    Ok(Entry::Device(Box::new(Admitted {
        connect,
        agreement,
        device,
        login_ends,
        allowance,
        turn,
        begun,
        slots,
    })))
}

/// A Will passes the check of ordinary publishes, before it is accepted (G10). Who only registers has none.
fn check_will(shared: &Shared, device: &Device, connect: &Connect) -> Result<(), Refused> {
    let Some(will) = &connect.will else {
        return Ok(());
    };
    if device.scope == Scope::Register {
        let reason = ReasonCode::NotAuthorized;
        return Err(Refused::with(reason, Rejected::NotAuthorized));
    }
    // It may outlive the login, and what that allows besides.
    let lasting = shared.with_rules(device.clone(), Rules::default(), &connect.client_id);
    for device in [device, &lasting] {
        let allowed = (shared.uplink).authorize(device, Action::Publish, will.topic.as_str());
        allowed.map_err(|error| Refused::with(error.problem().reason, Rejected::NotAuthorized))?;
    }
    Ok(())
}

async fn read_connect(wire: &mut Wire) -> Result<Box<Connect>, Refused> {
    loop {
        match wire.decode() {
            Ok(Some(Packet::Connect(connect))) => return Ok(connect),
            Ok(Some(_)) => return Err(Refused::silently(Rejected::Malformed)), // [MQTT-3.1.0-1]
            Ok(None) => read_more(wire).await?,
            Err(error) if error.reason == ReasonCode::UnsupportedProtocolVersion => {
                // 3.1.1 demands its return code 1, 5 allows any answer: whoever asks for another version or protocol
                // gets the former [MQTT-3.1.2-2].
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
    }
}

pub(super) async fn read_more(wire: &mut Wire) -> Result<(), Refused> {
    match std::future::poll_fn(|context| wire.poll_read(context)).await {
        Ok(0) | Err(_) => Err(Refused::silently(Rejected::SocketClosed)),
        Ok(_) => Ok(()),
    }
}

impl Admitted {
    /// Takes the device's place on this node, with the sub-devices that it has from then on.
    async fn take_place(
        &mut self,
        shared: &Shared,
        key: &str,
        mailbox: &Arc<Mailbox<Delivery>>,
    ) -> Result<(), Refused> {
        if !place::take(shared, key, mailbox, self.begun).await {
            return Err(Refused::unavailable());
        }
        let kept = match place::look_again(shared, &mut self.device, self.begun).await {
            Ok(()) => check_will(shared, &self.device, &self.connect),
            Err(refused) => Err(refused),
        };
        kept.inspect_err(|_| shared.registry.leave(key, mailbox))
    }

    /// Takes the device's place on this node, then its session: the status events follow the order of ownership.
    async fn enter(
        mut self: Box<Self>,
        shared: &Arc<Shared>,
        wire: Wire,
        peer: Option<SocketAddr>,
        number: u64,
    ) -> Result<Box<Driver>, (Wire, Refused)> {
        let key: Arc<str> = Mapping::device_tokens(&self.device.id).into();
        let mailbox = Arc::new(Mailbox::new(
            self.device.id.clone(),
            shared.config.mailbox(),
        ));
        if let Err(refused) = self.take_place(shared, &key, &mailbox).await {
            return Err((wire, refused));
        }
        let connection = Connection {
            device: self.device.id.clone(),
            client_id: (*self.connect.client_id).into(),
            connection_id: format!("{}.{number}", shared.run).into(),
            epoch: 0,
            version: self.connect.version.as_str(),
            peer,
            connected_at_ms: telemetry::now_unix_ms(),
        };
        let will = self.connect.will.map(will_message);
        let [connected, lost @ ..] = self.slots;
        let method = self.connect.properties.authentication_method;
        let request = Request {
            key: &key,
            connection: &connection,
            clean_start: self.agreement.clean_start,
            expiry_s: self.agreement.session_expiry_s,
            will: will.as_ref(),
        };
        let (held, before) = match claim(shared, request, self.turn, lost).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%connection.client_id, %error, "session not claimed");
                give_up(shared, key, mailbox, connection.connection_id);
                return Err((wire, Refused::unavailable()));
            }
        };
        if matches!(before, Before::Discarded(_)) && shared.session.publishes_at_release {
            releasing::forget_all(shared, &key).await;
        }
        let connection = Arc::clone(held.connection());
        mailbox.set_epoch(connection.epoch);
        shared.status.connected(connected, &connection);
        let start = start(shared, &self.agreement, &connection, before);
        let session = Session::new(self.agreement, &shared.session, start, Instant::now());
        let receipts = Arc::new(Receipts::of(held.claimant()));
        // What changed from here on the mailbox is told.
        let device = shared.with_new_rules(self.device, &connection.client_id, &mailbox);
        let id = &connection.connection_id;
        let sender = Sender::new(device, &key, id, &shared.run, receipts);
        Ok(Box::new(Driver::new(
            Arc::clone(shared),
            wire,
            session,
            sender,
            Owned {
                connection,
                mailbox,
                held,
                allowance: self.allowance,
                reauthentication: Reauthentication::of(method, self.login_ends),
            },
        )))
    }
}

/// Claims the session, and first does what earlier connections are owed. `slots` are for one of them.
async fn claim(
    shared: &Shared,
    request: Request<'_>,
    turn: Turn,
    slots: [Slot; 2],
) -> Result<(Held, Before), ownership::Error> {
    let (mut turn, mut slots) = (Some(turn), Some(slots));
    loop {
        match shared.ownership.claim(request, &mut turn).await? {
            Claim::Held(held, before) => return Ok((held, before)),
            Claim::Owed(orphan) => {
                let slots = match slots.take() {
                    Some(slots) => slots,
                    None => shared.status.slots().await,
                };
                afterlife::care(shared, *orphan, slots).await;
            }
        }
    }
}

/// A claim failed: the device's place stays taken until it is known what became of it.
fn give_up(
    shared: &Arc<Shared>,
    key: Arc<str>,
    mailbox: Arc<Mailbox<Delivery>>,
    connection_id: Box<str>,
) {
    let shared = Arc::clone(shared);
    let tasks = shared.tasks.clone();
    tasks.spawn("disclaim", OnExit::Log, async move {
        shared.ownership.disclaim(&key, &connection_id).await;
        shared.registry.leave(&key, &mailbox);
    });
}

/// How the session begins: as it is restored, or under a new id.
fn start(shared: &Shared, agreement: &Agreement, connection: &Connection, before: Before) -> Start {
    let restored = match before {
        Before::Restored(record) => Some(record),
        Before::Discarded(record) => {
            attachment::forget(shared, &connection.device, &record);
            None
        }
        Before::Nothing => None,
    };
    Start {
        id: match &restored {
            Some(record) => record.id.clone(),
            // What is not stored needs no name.
            None if agreement.session_expiry_s == 0 => Box::default(),
            None => connection.connection_id.clone(),
        },
        restored,
        stored: agreement.session_expiry_s > 0,
        stream: shared.router.stream(),
    }
}

/// The Will as it is kept.
fn will_message(will: Will) -> WillMessage {
    WillMessage {
        publish: Publish {
            dup: false,
            qos: will.qos,
            retain: will.retain,
            topic: will.topic.as_str().into(),
            packet_id: None,
            properties: will.properties,
            payload: will.payload,
        },
        delay_s: will.delay_interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<'a, F>(
        _: impl Fn(&'a Arc<Shared>, Accepted, u64, &'a CancellationToken) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_device_that_waits_for_its_turn_is_small() {
        assert!(bytes_of(handshake) <= 3072, "{}", bytes_of(handshake));
    }
}
