//! The life of one connected device: wait for one event, tell the session, do what the session says.
//!
//! `poll_event` only waits; `apply` only acts and never awaits. What comes from the device is in `inbound`, what goes to it in
//! `outbound`, writing the session in `keeping`, the end in `ending`. After a takeover nothing of this connection touches the
//! registry, the status, the session or the new connection (G01).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep_until};

use super::Shared;
use super::asking::Asking;
use super::attachment::Attachment;
use super::behind::{Behind, Worked};
use super::inbound::Inbound;
use super::keeping::{Keeper, Kept};
use super::pending::{Fetched, Outbound};
use super::reauthentication::{Reauthentication, Stepped};
use super::wire::Wire;
use crate::device::Connection;
use crate::downlink::{Delivery, Outcome};
use crate::jetstream::Permit;
use crate::mqtt::{Packet, PacketId, ReasonCode};
use crate::ownership::Held;
use crate::protection::Allowance;
use crate::registry::{Command, Mail, Mailbox};
use crate::session::{CloseReason, Output, Session};
use crate::uplink::Sender;

/// How long a device whose messages gather is not heard without another look at the reason: the stream may have stopped to take
/// any, and PINGREQs are answered all the same (G27).
const GATHERING_MAX: Duration = Duration::from_millis(100);

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) sender: Sender,
    pub(super) connection: Arc<Connection>,
    pub(super) mailbox: Arc<Mailbox<Delivery>>,
    pub(super) keeper: Keeper,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) asking: Asking,
    pub(super) behind: Behind,
    pub(super) reauthentication: Option<Box<Reauthentication>>,
    /// What it has of what is limited; none if nothing is.
    pub(super) allowance: Option<Box<Allowance>>,
    timer: Pin<Box<Sleep>>,
    /// Since when the socket has taken none of what waits for it.
    write_stalled_since: Option<Instant>,
    pub(super) draining: bool,
    pub(super) closing: Option<CloseReason>,
}

/// What a connection has of its device.
pub(super) struct Owned {
    pub(super) connection: Arc<Connection>,
    /// Its place in the registry.
    pub(super) mailbox: Arc<Mailbox<Delivery>>,
    /// Its session.
    pub(super) held: Held,
    /// What it has of what is limited.
    pub(super) allowance: Option<Box<Allowance>>,
    /// The way to prove itself again, and the end of its login, if there is one of these.
    pub(super) reauthentication: Option<Box<Reauthentication>>,
}

enum Event {
    Mail(Mail<Delivery>),
    Finished(u64),
    Admitted(Permit),
    Readied(Option<PacketId>),
    Kept(Kept),
    Fetched(Fetched),
    Worked(Worked),
    Reauthentication(Stepped),
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
        owned: Owned,
    ) -> Self {
        let deadline = session.poll_timeout();
        Self {
            shared,
            wire,
            session,
            sender,
            connection: owned.connection,
            mailbox: owned.mailbox,
            keeper: Keeper::new(owned.held),
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            asking: Asking::default(),
            behind: Behind::default(),
            reauthentication: owned.reauthentication,
            allowance: owned.allowance,
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
        self.resume_session();
        self.handle_inbound();
        self.settle();
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
        let takes_mail = self.takes_downlinks() && self.outbound.is_idle();
        if let Poll::Ready(mail) = self.mailbox.poll_mail(context, takes_mail) {
            return Poll::Ready(Event::Mail(mail));
        }
        if self.inbound.finished < self.sender.accepted
            && let Poll::Ready(finished) =
                (self.sender.receipts).poll_finished(context, self.inbound.finished)
        {
            return Poll::Ready(Event::Finished(finished));
        }
        if let Poll::Ready(permit) = self.inbound.poll_permit(context) {
            return Poll::Ready(Event::Admitted(permit));
        }
        if let Poll::Ready(nothing_held) = self.inbound.poll_readied(context) {
            return Poll::Ready(Event::Readied(nothing_held));
        }
        if let Poll::Ready(kept) = self.keeper.poll_kept(context) {
            return Poll::Ready(Event::Kept(kept));
        }
        if let Poll::Ready(worked) = self.behind.poll_worked(context) {
            return Poll::Ready(Event::Worked(worked));
        }
        if let Poll::Ready(fetched) = self.outbound.poll_fetched(context) {
            return Poll::Ready(Event::Fetched(fetched));
        }
        if let Some(reauthentication) = &mut self.reauthentication
            && let Poll::Ready(stepped) = reauthentication.poll_stepped(context)
        {
            return Poll::Ready(Event::Reauthentication(stepped));
        }
        if self.wire.wants_write()
            && let Poll::Ready(wrote) = self.wire.poll_write(context)
        {
            return Poll::Ready(wrote.map_or(Event::SocketClosed, |()| Event::Wrote));
        }
        let gathers = self.gathers();
        if !gathers
            && self.may_read()
            && let Poll::Ready(read) = self.wire.poll_read(context)
        {
            return Poll::Ready(match read {
                Ok(0) | Err(_) => Event::SocketClosed,
                Ok(_) => Event::Read,
            });
        }
        self.arm_timer(gathers);
        self.timer.as_mut().poll(context).map(|()| Event::Timeout)
    }

    /// Whether a downlink may be handed to the session now.
    pub(super) fn takes_downlinks(&self) -> bool {
        self.session.has_room() && self.may_send() && !self.draining && self.closing.is_none()
    }

    pub(super) fn may_send(&self) -> bool {
        self.wire.outbound_bytes() < self.shared.config.outbound_bytes_max
    }

    pub(super) fn may_read(&self) -> bool {
        let room = !self.inbound.is_blocked()
            || self.wire.inbound_bytes() < self.shared.config.read_ahead_bytes_max;
        room && self.may_send() && self.session.may_read() && !self.draining
    }

    /// Whether the device is read again only when its messages are stored, because much waits for the stream: what it sends
    /// until then is read, stored and answered together, at less cost than each alone.
    fn gathers(&self) -> bool {
        self.inbound.finished < self.sender.accepted && self.shared.uplink.is_pressed()
    }

    /// Moves the timer forward when it is due; earlier deadlines than the one it has are rare and short-lived.
    fn arm_timer(&mut self, gathers: bool) {
        let mut deadline = self.deadline();
        if gathers {
            deadline = deadline.min(Instant::now() + GATHERING_MAX);
        }
        if self.timer.deadline() > deadline.into() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline.into());
        }
    }

    fn deadline(&self) -> Instant {
        let write_timeout = self.write_timeout();
        let stalled = self.write_stalled_since.map(|since| since + write_timeout);
        let reauthentication = self.reauthentication.as_ref();
        let proved = reauthentication.and_then(|reauthentication| reauthentication.due());
        [stalled, self.keeper.due(), proved, self.held_until()]
            .into_iter()
            .flatten()
            .fold(self.session.poll_timeout(), Instant::min)
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
            Event::Mail(Mail::Command(Command::Revoked)) => {
                self.closing = Some(CloseReason::Revoked);
                return;
            }
            Event::Mail(Mail::Command(Command::Drain)) => {
                self.draining = true;
                self.inbound.drop_held();
            }
            Event::Mail(Mail::Message(delivery)) => self.deliver(delivery, false),
            Event::Mail(Mail::Rung) => self.handle_asks(),
            Event::Mail(Mail::Rebound(rebound)) => self.handle_rebound(rebound),
            Event::Mail(Mail::Rules) => self.handle_rules(),
            Event::Mail(Mail::Overflowed) => self.catch_up(),
            Event::Finished(finished) => self.handle_finished(finished),
            Event::Admitted(permit) => self.handle_admitted(permit),
            Event::Readied(nothing_held) => self.handle_readied(nothing_held),
            Event::Kept(kept) => self.handle_kept(kept),
            Event::Fetched(fetched) => self.handle_fetched(fetched),
            Event::Worked(worked) => self.handle_worked(worked),
            Event::Reauthentication(stepped) => self.handle_stepped(stepped),
            Event::Wrote => self.write_stalled_since = None,
            Event::Read if self.inbound.is_blocked() => self.look_ahead(),
            Event::Read => self.handle_inbound(),
            Event::Timeout => self.handle_timeout(),
            Event::SocketClosed => self.handle_socket_closed(),
        }
        self.settle();
    }

    /// What follows from every event.
    fn settle(&mut self) {
        self.drain_outputs(None);
        self.deliver_backlog();
        if self.draining && self.session.is_settled() && !self.inbound.is_blocked() {
            self.session.close(CloseReason::ServerShuttingDown);
            self.drain_outputs(None);
        }
        let save_interval = Duration::from_millis(self.shared.save_interval_ms);
        self.keeper.observe(self.session.is_dirty(), save_interval);
        if self.wire.wants_write() {
            self.write_stalled_since.get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn refuse(&mut self, reason: ReasonCode) {
        tracing::info!(connection_id = %self.sender.connection_id, %reason, "packet against the protocol");
        self.closing = Some(CloseReason::Protocol(reason));
    }

    /// Does what the session says; `permit` is for the first message that it wants to be stored.
    ///
    /// A session that is closed says no more than it has, and its end must not wait for a peer that does not read.
    pub(super) fn drain_outputs(&mut self, mut permit: Option<Permit>) {
        while self.closing.is_none()
            && (self.may_send() || self.session.is_closed())
            && let Some(output) = self.session.poll_output()
        {
            match output {
                Output::Send(packet) => {
                    self.note_refused(&packet);
                    self.send(packet);
                }
                Output::Publish {
                    publish,
                    message_id,
                } => self.publish(&publish, message_id, permit.take()),
                Output::Hold { publish, packet_id } => {
                    self.hold_until_released(&publish, packet_id, permit.take());
                }
                Output::Release(packet_id) => self.release(packet_id),
                Output::Authorize(subscribe) => {
                    let attachment = Attachment::of(self);
                    self.session
                        .handle_authorized(subscribe, |filter| attachment.attach(filter));
                }
                Output::Detach(filter) => Attachment::of(self).detach(&filter),
                Output::FetchRetained(filters) => self.fetch_retained(filters),
                Output::Save(record) => self.keeper.save(record),
                Output::Settled { source, outcome } => self.settled(&source, outcome),
                Output::Close(reason) => self.closing = Some(reason),
            }
        }
    }

    pub(super) fn send(&mut self, mut packet: Packet) {
        let mut sent = self.wire.send(&packet);
        if let (Err(_), Packet::Publish(publish)) = (&sent, &mut packet)
            && self.session.withdraw_topic_alias(publish)
        {
            sent = self.wire.send(&packet);
        }
        match (sent, &packet) {
            (Ok(()), Packet::Publish(publish)) => self.handle_sent(publish),
            (Ok(()), _) => {}
            (Err(error), Packet::Publish(publish)) => {
                let outcome = match error.reason {
                    ReasonCode::PacketTooLarge => Outcome::TooLarge, // [MQTT-3.1.2-24], [MQTT-3.1.2-25]
                    _ => Outcome::Unmapped,
                };
                self.handle_unsendable(publish, outcome);
            }
            (Err(error), _) => {
                tracing::info!(connection_id = %self.sender.connection_id, %error, "packet cannot be sent");
                self.closing = Some(CloseReason::Protocol(error.reason));
            }
        }
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
        if self.keeper.is_due(now) {
            self.session.save_progress();
        }
        self.check_reauthentication(now);
        self.release_held(now);
        if self.gathers() || !self.may_read() {
            // We do not listen, so silence says nothing about the device.
            self.session.handle_bytes(now);
        }
        self.session.handle_timeout(now);
    }

    pub(super) fn handle_packet(&mut self, packet: Packet, permit: Option<Permit>) {
        match self.session.handle_packet(Instant::now(), packet) {
            Ok(()) => self.drain_outputs(permit),
            Err(reason) => self.refuse(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::connection::serve;
    use crate::net::Accepted;

    fn bytes_of<F>(_: impl Fn(Arc<Shared>, Accepted, CancellationToken) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        // What the allocator has a size for; the next one costs a quarter more, for each of all devices.
        assert!(size_of::<Driver>() <= 1024, "{}", size_of::<Driver>());
        assert!(size_of::<Mailbox<Delivery>>() <= 144);
        // With what the runtime adds.
        assert!(bytes_of(serve) <= 64, "{}", bytes_of(serve));
    }
}
