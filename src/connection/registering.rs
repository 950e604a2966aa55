//! A connection that may do nothing but register its device (profile §2.7): `register&P&N`, from a stranger.
//!
//! It is served here from CONNACK to its end. It takes no place of the device, has no session that is kept, no Will and no status;
//! nothing that it says reaches NATS. So whoever calls itself by a device's name takes nothing from that device (W-S2). A device that
//! logged in and asks all the same is told why not by [`Driver::ask_registration`].
//!
//! Invariants: it ends after `connection_max_s` whatever it does, and after `requests_max` requests; requests are answered one by one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::wire::Wire;
use super::{Shared, goodbye};
use crate::auth::Registrar;
use crate::auth::acl::Action;
use crate::device::Device;
use crate::mqtt::{Packet, Publish, PublishProperties, QoS, ReasonCode, TopicFilter, Version};
use crate::session::connect::Agreement;
use crate::session::{Admission, CloseReason, Output, Problem, Session, Start};
use crate::tasks::OnExit;
use crate::telemetry;

/// How long the last packets may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

impl Driver {
    /// A device that logged in asks to be registered: it is told why not. What it sent is stored as everything that it sends.
    pub(super) fn ask_registration(&self, publish: &Publish) {
        let is_registered_here = self.shared.authenticator.registrar.is_some();
        if !is_registered_here || !publish.topic.starts_with("$ext/up/register/") {
            return;
        }
        let address = self.shared.mapping.address(&publish.topic);
        let id = self.sender.device.id.clone();
        if address.is_none_or(|to| (to.product, to.name) != (id.product(), id.name())) {
            return;
        }
        let (shared, payload) = (Arc::clone(&self.shared), publish.payload.clone());
        let number = telemetry::random_u64();
        let answer = async move {
            let (Some(registrar), Some(desk)) = (&shared.authenticator.registrar, &shared.desk)
            else {
                return;
            };
            if let Some(answer) = registrar.answer_activated(&id, &payload).await {
                desk.answer_registration(&id, &format!("{number:016x}"), answer.into())
                    .await;
            }
        };
        let tasks = &self.shared.tasks;
        tasks.spawn("registration answer", OnExit::Log, answer);
    }
}

/// Who is served.
pub(super) struct Registering<'a> {
    shared: &'a Shared,
    registrar: &'a Registrar,
    device: Device,
    session: Session,
    requests_left: u32,
}

impl<'a> Registering<'a> {
    /// None where nobody registers.
    pub(super) fn new(
        shared: &'a Shared,
        device: Device,
        mut agreement: Agreement,
    ) -> Option<Self> {
        let registrar = shared.authenticator.registrar.as_ref()?;
        // A stranger's packets stay small.
        let bytes_max = NonZeroU32::new(shared.config.connect_bytes_max);
        agreement.connack.properties.maximum_packet_size = bytes_max;
        if agreement.session_expiry_s > 0 && agreement.version == Version::V5 {
            agreement.connack.properties.session_expiry_interval = Some(0);
        }
        agreement.session_expiry_s = 0;
        let start = Start {
            id: "".into(),
            restored: None,
            stored: false,
            stream: Arc::from(""),
        };
        Some(Self {
            shared,
            registrar,
            device,
            session: Session::new(agreement, &shared.session, start, Instant::now()),
            requests_left: registrar.config.requests_max,
        })
    }

    /// Serves it to its end.
    pub(super) async fn run(mut self, mut wire: Wire, shutdown: &CancellationToken) {
        let limit = Duration::from_secs(self.registrar.config.connection_max_s.into());
        let end = Instant::now() + limit;
        self.shared.metrics.connections.inc();
        let reason = tokio::select! {
            biased;
            () = shutdown.cancelled() => CloseReason::ServerShuttingDown,
            () = sleep_until(end.into()) => CloseReason::Protocol(ReasonCode::MaximumConnectTime),
            reason = self.serve(&mut wire) => reason,
        };
        self.shared.metrics.close(reason);
        self.shared.metrics.connections.dec();
        tracing::debug!(device = %self.device.id, reason = reason.as_str(), "registering connection ended");
        goodbye::say(&mut wire, reason, self.shared.server_reference.as_ref());
        drop(timeout(GOODBYE_MAX, wire.finish()).await);
        wire.linger().await;
    }

    async fn serve(&mut self, wire: &mut Wire) -> CloseReason {
        loop {
            if let Some(reason) = self.drain_outputs(wire).await {
                return reason;
            }
            let write_timeout = Duration::from_millis(self.shared.config.write_timeout_ms);
            match timeout(write_timeout, wire.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return CloseReason::SocketClosed,
                Err(_) => return CloseReason::WriteTimeout,
            }
            match wire.decode() {
                Ok(Some(packet)) => {
                    if let Err(reason) = self.handle_packet(packet) {
                        return CloseReason::Protocol(reason);
                    }
                }
                Ok(None) => {
                    let silence = self.session.poll_timeout();
                    let read = std::future::poll_fn(|context| wire.poll_read(context));
                    match tokio::time::timeout_at(silence.into(), read).await {
                        Ok(Ok(0) | Err(_)) => return CloseReason::SocketClosed,
                        Ok(Ok(_)) => {}
                        Err(_) => self.session.handle_timeout(Instant::now()),
                    }
                }
                Err(error) => return CloseReason::Protocol(error.reason),
            }
        }
    }

    fn handle_packet(&mut self, mut packet: Packet) -> Result<(), ReasonCode> {
        if let Packet::Publish(publish) = &mut packet {
            // Each is answered before the next one is read, so that there is always room.
            match self.session.admission(publish)? {
                Admission::Admit | Admission::Hold => {}
                Admission::Shed => return Ok(()),
            }
        }
        self.session.handle_packet(Instant::now(), packet)
    }

    /// Does what the session says; why it is over, if it is.
    async fn drain_outputs(&mut self, wire: &mut Wire) -> Option<CloseReason> {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(packet) => {
                    if let Err(error) = wire.send(&packet) {
                        return Some(CloseReason::Protocol(error.reason));
                    }
                }
                Output::Publish { publish, .. } => {
                    if let Some(reason) = self.handle_request(&publish).await {
                        return Some(reason);
                    }
                }
                Output::Authorize(subscribe) => {
                    let (uplink, device) = (&self.shared.uplink, &self.device);
                    let attach = |filter: &TopicFilter| -> Result<u64, Problem> {
                        let allowed = uplink.authorize(device, Action::Subscribe, filter.topics());
                        allowed.map(|()| 0).map_err(|error| error.problem())
                    };
                    self.session.handle_authorized(subscribe, attach);
                }
                Output::FetchRetained(filters) => {
                    for filter in filters {
                        self.session.handle_retained(&filter, Vec::new());
                    }
                }
                Output::Close(reason) => return Some(reason),
                Output::Detach(_) | Output::Settled { .. } => {}
                // Nothing of it is kept.
                Output::Save(_) => self.session.handle_saved(),
                // Of the open profile, which has no registrations.
                Output::Hold { .. } | Output::Release(_) => {
                    return Some(CloseReason::Protocol(
                        ReasonCode::ImplementationSpecificError,
                    ));
                }
            }
        }
        None
    }

    async fn handle_request(&mut self, publish: &Publish) -> Option<CloseReason> {
        let uplink = &self.shared.uplink;
        let allowed = uplink.authorize(&self.device, Action::Publish, &publish.topic);
        if let Err(error) = allowed {
            self.shared.metrics.denied.inc();
            self.session.handle_denied(error.problem());
            return None;
        }
        let Some(left) = self.requests_left.checked_sub(1) else {
            return Some(CloseReason::Protocol(ReasonCode::QuotaExceeded));
        };
        self.requests_left = left;
        let device = &self.device.id;
        let answer = self.registrar.answer(device, &publish.payload).await;
        self.session.handle_stored(1);
        let topic = format!("$ext/down/register/{}/{}", device.product(), device.name());
        if let Some(answer) = answer {
            self.session.handle_request(Publish {
                dup: false,
                qos: QoS::AtMostOnce,
                retain: false,
                topic: topic.into(),
                packet_id: None,
                properties: PublishProperties::default(),
                payload: Bytes::from(answer),
            });
        }
        None
    }
}
