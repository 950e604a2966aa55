//! The life of one connected device: wait for one event, tell the session, do what the session says.
//!
//! `poll_event` only waits; `apply` only acts and never awaits. Held is a device whose next PUBLISH has no room yet: nothing
//! behind it is handled, but its PINGREQs are answered (G27). After a takeover nothing of this connection
//! touches the registry, the status or the new connection (G01).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until, timeout};

use super::Shared;
use super::goodbye;
use super::wire::Wire;
use crate::auth::acl::Action;
use crate::downlink::Outcome;
use crate::jetstream::Permit;
use crate::mapping::Downlink;
use crate::mqtt::{Packet, Publish, QoS, ReasonCode};
use crate::registry::{Command, Mail, Mailbox};
use crate::session::{Admission, CloseReason, Delivered, Output, Session};
use crate::telemetry;
use crate::uplink::{Sender, not_stored};

type WaitingPermit = Pin<Box<dyn Future<Output = Permit> + Send>>;

pub(super) struct Driver {
    shared: Arc<Shared>,
    wire: Wire,
    session: Session,
    sender: Sender,
    mailbox: Arc<Mailbox<Downlink>>,
    will: Option<Box<Publish>>,
    /// Uplinks whose outcome the session knows.
    finished: u64,
    /// A PUBLISH that has no room yet, and the permit it waits for, if that is what is missing.
    held: Option<Box<Publish>>,
    waiting: Option<WaitingPermit>,
    /// PINGREQs that were answered before the packets ahead of them were handled.
    answered_pings: u32,
    timer: Pin<Box<Sleep>>,
    /// Since when the socket has taken none of what waits for it.
    write_stalled_since: Option<Instant>,
    draining: bool,
    closing: Option<CloseReason>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "an event lives on the stack, from one line to the next"
)]
enum Event {
    Mail(Mail<Downlink>),
    Finished(u64),
    Admitted(Permit),
    Wrote,
    Read,
    Timeout,
    SocketClosed,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        wire: Wire,
        session: Session,
        sender: Sender,
        mailbox: Arc<Mailbox<Downlink>>,
        will: Option<Box<Publish>>,
    ) -> Self {
        let deadline = session.poll_timeout();
        Self {
            shared,
            wire,
            session,
            sender,
            mailbox,
            will,
            finished: 0,
            held: None,
            waiting: None,
            answered_pings: 0,
            timer: Box::pin(sleep_until(deadline.into())),
            write_stalled_since: None,
            draining: false,
            closing: None,
        }
    }

    /// What the node says to all its connections when it stops.
    pub(super) fn drain(&self) {
        self.mailbox.command(Command::Drain);
    }

    /// Lives until the connection ends. `self` is boxed, and so is the end: an async block keeps room for each place that
    /// a value is moved through, and for what it needs last.
    pub(super) async fn run(mut self: Box<Self>) {
        self.drain_outputs(None);
        self.handle_inbound();
        self.drain_outputs(None);
        let reason = loop {
            if let Some(reason) = self.closing {
                break reason;
            }
            let event = std::future::poll_fn(|context| self.poll_event(context)).await;
            self.apply(event);
        };
        Box::pin(self.end(reason)).await;
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let takes_downlinks = self.session.has_room() && self.may_send() && !self.draining;
        if let Poll::Ready(mail) = self.mailbox.poll_mail(context, takes_downlinks) {
            return Poll::Ready(Event::Mail(mail));
        }
        if self.finished < self.sender.accepted
            && let Poll::Ready(finished) =
                self.sender.receipts.poll_finished(context, self.finished)
        {
            return Poll::Ready(Event::Finished(finished));
        }
        if let Some(waiting) = &mut self.waiting
            && let Poll::Ready(permit) = waiting.as_mut().poll(context)
        {
            return Poll::Ready(Event::Admitted(permit));
        }
        if self.wire.wants_write()
            && let Poll::Ready(wrote) = self.wire.poll_write(context)
        {
            return Poll::Ready(wrote.map_or(Event::SocketClosed, |()| Event::Wrote));
        }
        if self.may_read()
            && let Poll::Ready(read) = self.wire.poll_read(context)
        {
            return Poll::Ready(match read {
                Ok(0) | Err(_) => Event::SocketClosed,
                Ok(_) => Event::Read,
            });
        }
        self.arm_timer();
        self.timer.as_mut().poll(context).map(|()| Event::Timeout)
    }

    fn may_send(&self) -> bool {
        self.wire.outbound_bytes() < self.shared.config.outbound_bytes_max
    }

    fn may_read(&self) -> bool {
        let room = match self.held {
            None => true,
            Some(_) => self.wire.inbound_bytes() < self.shared.config.read_ahead_bytes_max,
        };
        room && self.may_send() && !self.draining
    }

    /// Moves the timer forward when it is due; earlier deadlines than the one it has are rare and short-lived.
    fn arm_timer(&mut self) {
        let deadline = self.deadline();
        if self.timer.deadline() > deadline.into() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline.into());
        }
    }

    fn deadline(&self) -> Instant {
        let keep_alive = self.session.poll_timeout();
        match self.write_stalled_since {
            Some(since) => keep_alive.min(since + self.write_timeout()),
            None => keep_alive,
        }
    }

    fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.shared.config.write_timeout_ms)
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Mail(Mail::Command(Command::TakenOver)) => {
                self.closing = Some(CloseReason::TakenOver);
                return;
            }
            Event::Mail(Mail::Command(Command::Drain)) => {
                self.draining = true;
                self.held = None;
                self.waiting = None;
            }
            Event::Mail(Mail::Message(downlink)) => self.handle_downlink(downlink),
            Event::Finished(finished) => self.handle_finished(finished),
            Event::Admitted(permit) => {
                self.waiting = None;
                if let Some(publish) = self.held.take() {
                    self.handle_packet(Packet::Publish(*publish), Some(permit));
                    self.handle_inbound();
                }
            }
            Event::Wrote => self.write_stalled_since = None,
            Event::Read if self.held.is_some() => self.look_ahead(),
            Event::Read => self.handle_inbound(),
            Event::Timeout => self.handle_timeout(),
            Event::SocketClosed => self.handle_socket_closed(),
        }
        if self.draining && self.session.is_settled() {
            self.session.close(CloseReason::ServerShuttingDown);
        }
        self.drain_outputs(None);
        if self.wire.wants_write() {
            self.write_stalled_since.get_or_insert_with(Instant::now);
        }
    }

    /// Handles what was read, up to a PUBLISH that has no room.
    fn handle_inbound(&mut self) {
        while self.held.is_none() && self.closing.is_none() && !self.draining {
            match self.wire.decode() {
                Ok(None) => return,
                Ok(Some(Packet::Publish(publish))) => self.admit(publish),
                Ok(Some(Packet::Pingreq)) if self.answered_pings > 0 => self.answered_pings -= 1,
                Ok(Some(packet)) => self.handle_packet(packet, None),
                Err(error) => {
                    tracing::info!(connection_id = %self.sender.connection_id, %error, "packet refused");
                    self.closing = Some(CloseReason::Protocol(error.reason));
                }
            }
        }
    }

    /// Feeds a PUBLISH if the device's window and the common pool have room; else holds QoS 1 and sheds QoS 0.
    fn admit(&mut self, mut publish: Publish) {
        let admission = match self.session.admission(&mut publish) {
            Ok(admission) => admission,
            Err(reason) => return self.refuse(reason),
        };
        match admission {
            Admission::Admit => {
                let bytes = publish.content_bytes();
                match self.shared.uplink.try_permit(bytes) {
                    Some(permit) => self.handle_packet(Packet::Publish(publish), Some(permit)),
                    None if publish.qos == QoS::AtMostOnce => self.shed(),
                    None => {
                        self.waiting = Some(Box::pin(self.shared.uplink.clone().permit(bytes)));
                        self.hold(publish);
                    }
                }
            }
            Admission::Hold => self.hold(publish),
            Admission::Shed => self.shed(),
        }
    }

    /// Drops and counts a QoS 0 message; the device spoke all the same.
    fn shed(&mut self) {
        self.shared.metrics.shed.inc();
        self.session.handle_bytes(Instant::now());
    }

    fn hold(&mut self, publish: Publish) {
        self.shared.metrics.held.inc();
        self.held = Some(Box::new(publish));
        self.look_ahead();
    }

    /// Answers the PINGREQs behind what is held (G27). QoS 0 that fills the room for looking ahead is shed: a device that
    /// sends both would otherwise not be heard any more.
    fn look_ahead(&mut self) {
        let now = Instant::now();
        self.session.handle_bytes(now);
        for _ in 0..self.wire.take_pings() {
            self.answered_pings += 1;
            self.session.handle_pingreq(now);
        }
        if self.wire.inbound_bytes() >= self.shared.config.read_ahead_bytes_max {
            self.shared.metrics.shed.inc_by(self.wire.shed_qos_0());
        }
    }

    /// What is behind a held PUBLISH will never be handled; but a DISCONNECT there says why the device left [MQTT-3.14.4-3].
    fn handle_socket_closed(&mut self) {
        while let Ok(Some(packet)) = self.wire.decode() {
            if matches!(packet, Packet::Disconnect(_)) {
                self.handle_packet(packet, None);
            }
        }
        self.session.close(CloseReason::SocketClosed);
    }

    /// Feeds a packet; a PUBLISH comes with its permit.
    fn handle_packet(&mut self, packet: Packet, permit: Option<Permit>) {
        match self.session.handle_packet(Instant::now(), packet) {
            Ok(()) => self.drain_outputs(permit),
            Err(reason) => self.refuse(reason),
        }
    }

    fn refuse(&mut self, reason: ReasonCode) {
        tracing::info!(connection_id = %self.sender.connection_id, %reason, "packet against the protocol");
        self.closing = Some(CloseReason::Protocol(reason));
    }

    fn drain_outputs(&mut self, mut permit: Option<Permit>) {
        while self.closing.is_none()
            && let Some(output) = self.session.poll_output()
        {
            match output {
                Output::Send(packet) => self.send(packet),
                Output::Publish(publish) => {
                    if let Some(permit) = permit.take() {
                        self.publish(&publish, permit);
                    }
                }
                Output::Authorize(subscribe) => {
                    let (uplink, device) = (&self.shared.uplink, &self.sender.device);
                    self.session.handle_authorized(subscribe, |filter| {
                        let allowed = uplink.authorize(device, Action::Subscribe, filter);
                        allowed.map_err(|error| error.problem())
                    });
                }
                Output::Close(reason) => self.closing = Some(reason),
            }
        }
    }

    fn send(&mut self, mut packet: Packet) {
        let mut sent = self.wire.send(&packet);
        if let (Err(_), Packet::Publish(publish)) = (&sent, &mut packet)
            && self.session.withdraw_topic_alias(publish)
        {
            sent = self.wire.send(&packet);
        }
        match (sent, &packet) {
            (Ok(()), Packet::Publish(_)) => self.shared.downlinks.count(Outcome::Sent),
            (Ok(()), _) => {}
            (Err(error), Packet::Publish(publish)) => {
                self.session.handle_undeliverable(publish.packet_id);
                let outcome = match error.reason {
                    ReasonCode::PacketTooLarge => Outcome::TooLarge, // [MQTT-3.1.2-24]
                    _ => Outcome::Unmapped,
                };
                self.undeliverable(outcome, None);
            }
            (Err(error), _) => {
                tracing::error!(connection_id = %self.sender.connection_id, %error, "packet cannot be encoded");
                self.closing = Some(CloseReason::Protocol(
                    ReasonCode::ImplementationSpecificError,
                ));
            }
        }
    }

    fn publish(&mut self, publish: &Publish, permit: Permit) {
        self.shared.metrics.publishes.inc();
        if let Err(error) = self.shared.uplink.accept(&mut self.sender, publish, permit) {
            self.shared.metrics.denied.inc();
            tracing::debug!(
                device = %self.sender.device.id, topic = %publish.topic, %error, "publish denied"
            );
            self.session.handle_denied(error.problem());
        }
    }

    /// Tells the session what became of the messages between the last time and `finished`, in order.
    fn handle_finished(&mut self, finished: u64) {
        for (number, refusal) in self.sender.receipts.take_refused() {
            self.session
                .handle_stored(number.saturating_sub(self.finished));
            self.session.handle_not_stored(not_stored(&refusal));
            self.finished = number + 1;
        }
        self.session
            .handle_stored(finished.saturating_sub(self.finished));
        self.finished = self.finished.max(finished);
        self.resume();
    }

    /// Tries again with a PUBLISH that waits for the device's own window.
    fn resume(&mut self) {
        if self.waiting.is_none()
            && let Some(publish) = self.held.take()
        {
            self.admit(*publish);
            self.handle_inbound();
        }
    }

    fn handle_downlink(&mut self, downlink: Downlink) {
        let now = telemetry::now_unix_ms();
        let mut properties = downlink.properties;
        if let Some(expires) = downlink.expires {
            let Some(seconds) = expires.left(now) else {
                self.undeliverable(Outcome::Expired, downlink.id.as_deref());
                return;
            };
            properties.message_expiry_interval = Some(seconds); // [MQTT-3.3.2-6]
        }
        let publish = Publish {
            dup: false,
            qos: downlink.qos,
            retain: false,
            topic: downlink.topic.into(),
            packet_id: None,
            properties,
            payload: downlink.payload,
        };
        match self
            .session
            .handle_downlink(publish, downlink.stream_sequence)
        {
            Delivered::Sent => {}
            Delivered::NotSubscribed => {
                self.undeliverable(Outcome::NotSubscribed, downlink.id.as_deref());
            }
        }
    }

    fn undeliverable(&self, outcome: Outcome, id: Option<&str>) {
        self.shared.downlinks.count(outcome);
        tracing::warn!(device = %self.sender.device.id, id, ?outcome, "downlink not delivered");
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        let timeout = self.write_timeout();
        if self
            .write_stalled_since
            .is_some_and(|since| now >= since + timeout)
        {
            self.session.close(CloseReason::WriteTimeout);
        }
        if !self.may_read() {
            // We do not listen, so silence says nothing about the device.
            self.session.handle_bytes(now);
        }
        self.session.handle_timeout(now);
    }

    /// Says goodbye, gives the device up if it still is ours, and publishes the Will if one is due.
    async fn end(mut self: Box<Self>, reason: CloseReason) {
        self.shared.metrics.close(reason);
        tracing::debug!(connection_id = %self.sender.connection_id, device = %self.sender.device.id, reason = reason.as_str(), cursor = self.session.cursor(), "connection ended");
        goodbye::say(
            &mut self.wire,
            reason,
            self.shared.server_reference.as_ref(),
        );
        let Self {
            shared,
            mut sender,
            session,
            mailbox,
            will,
            mut wire,
            ..
        } = *self;
        // The device is given up before it can see the end and come back, so that the event says why (G28); only while NATS
        // takes no more does the socket not wait for that.
        let leave = async {
            let slot = shared.status.slot().await;
            shared.registry.leave(&sender.tokens, &mailbox, || {
                shared
                    .status
                    .disconnected(slot, &mailbox.connection, reason);
            });
        };
        let unacknowledged = mailbox.len() + session.unacknowledged_downlinks();
        if unacknowledged > 0 {
            shared
                .downlinks
                .count_all(Outcome::Unacknowledged, unacknowledged);
        }
        let goodbye = timeout(Duration::from_secs(1), wire.finish());
        let ((), _) = tokio::join!(biased; leave, goodbye);
        if let Some(will) = will.filter(|_| reason.publishes_will()) {
            let permit = shared.uplink.clone().permit(will.content_bytes()).await;
            if let Err(error) = shared.uplink.accept(&mut sender, &will, permit) {
                tracing::warn!(device = %sender.device.id, %error, "will not published");
            }
        }
        // Last, so that nobody waits for a peer that does not close.
        wire.linger().await;
    }
}
