//! From the device: packets into the session, and the session's messages into the stream.
//!
//! Blocked is a device whose next PUBLISH or SUBSCRIBE has no room or must wait: nothing behind it is handled, but its PINGREQs
//! are answered (G27).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::driver::Driver;
use super::releasing::{Place, Released};
use super::{Shared, releasing};
use crate::jetstream::{Permit, Receipts, Refusal};
use crate::mapping::Holder;
use crate::mqtt::{Packet, PacketId, Publish, QoS};
use crate::protection::Reason;
use crate::session::{Admission, CloseReason};
use crate::uplink::{Error, Prepared, Uplink, not_stored};

type WaitingPermit = Pin<Box<dyn Future<Output = Permit> + Send>>;
/// Gives the packet identifier under which nothing is held.
type Readying = Pin<Box<dyn Future<Output = Result<Message, PacketId>> + Send>>;

/// What the session let go.
#[expect(
    clippy::large_enum_variant,
    reason = "most are messages, and a box for each costs more"
)]
enum Outgoing {
    Message(Message),
    /// A held message that is still to be read.
    Release(PacketId),
}

/// A message on its way to the stream.
struct Message {
    prepared: Prepared,
    bytes: usize,
    permit: Option<Permit>,
    /// Whether nothing is left to be done before: its retained copy is written, or it has none.
    is_retained: bool,
    /// Where it was held.
    held: Option<Place>,
}

#[derive(Default)]
pub(super) struct Inbound {
    /// Uplinks whose outcome the session knows.
    pub(super) finished: u64,
    /// A PUBLISH that has no room yet, or a SUBSCRIBE behind messages that are not stored yet.
    held: Option<Box<Packet>>,
    /// In order; the first waits for its permit, or for what is before it.
    outgoing: VecDeque<Outgoing>,
    /// The permit that the first of `outgoing`, or else `held`, waits for.
    waiting: Option<WaitingPermit>,
    /// The message before all of `outgoing`, which is read, or whose retained copy is written.
    readying: Option<Readying>,
    pub(super) released: Released,
    /// PINGREQs that were answered before the packets ahead of them were handled.
    answered_pings: u32,
}

impl Inbound {
    pub(super) fn is_blocked(&self) -> bool {
        self.held.is_some() || self.is_publishing()
    }

    fn is_publishing(&self) -> bool {
        !self.outgoing.is_empty() || self.readying.is_some()
    }

    /// What was not begun is not begun any more.
    pub(super) fn drop_held(&mut self) {
        self.held = None;
        if self.outgoing.is_empty() {
            self.waiting = None;
        }
    }

    pub(super) fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<Permit> {
        let Some(waiting) = &mut self.waiting else {
            return Poll::Pending;
        };
        let permit = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(permit)
    }

    /// Ready when the message before all others may go; gives the packet identifier if there is none to release.
    pub(super) fn poll_readied(&mut self, context: &mut Context<'_>) -> Poll<Option<PacketId>> {
        let Some(readying) = &mut self.readying else {
            return Poll::Pending;
        };
        let readied = ready!(readying.as_mut().poll(context));
        self.readying = None;
        Poll::Ready(match readied {
            Ok(message) => {
                self.outgoing.push_front(Outgoing::Message(message));
                None
            }
            Err(packet_id) => Some(packet_id),
        })
    }
}

impl Driver {
    /// Handles what was read, up to a packet that must wait, and looks at what is behind it.
    pub(super) fn handle_inbound(&mut self) {
        self.handle_packets();
        if self.inbound.is_blocked() && self.closing.is_none() {
            self.look_ahead();
        }
    }

    fn handle_packets(&mut self) {
        while !self.inbound.is_blocked()
            && self.session.may_read()
            && self.closing.is_none()
            && !self.draining
        {
            match self.wire.decode() {
                Ok(None) => return,
                Ok(Some(Packet::Publish(publish))) => self.admit(publish),
                Ok(Some(Packet::Pingreq)) if self.inbound.answered_pings > 0 => {
                    self.inbound.answered_pings -= 1;
                }
                // What the device published before it subscribes is not for this subscription.
                Ok(Some(packet @ Packet::Subscribe(_))) if !self.session.is_settled() => {
                    self.hold(packet);
                }
                Ok(Some(Packet::Auth(auth))) => self.handle_auth(auth),
                Ok(Some(packet)) => self.handle_packet(packet, None),
                Err(error) => {
                    tracing::info!(connection_id = %self.sender.connection_id, %error, "packet refused");
                    self.closing = Some(CloseReason::Protocol(error.reason));
                }
            }
        }
    }

    /// Feeds a PUBLISH if the device's window and the common pool have room; else holds QoS 1 and 2 and sheds QoS 0.
    fn admit(&mut self, mut publish: Publish) {
        let admission = match self.session.admission(&mut publish) {
            Ok(admission) => admission,
            Err(reason) => return self.refuse(reason),
        };
        match admission {
            Admission::Admit => {
                let bytes = publish.content_bytes();
                if !self.is_within_quota(bytes) {
                    return self.hold(Packet::Publish(publish));
                }
                match self.shared.uplink.try_permit(bytes) {
                    Some(permit) => self.handle_packet(Packet::Publish(publish), Some(permit)),
                    None if publish.qos == QoS::AtMostOnce => self.shed(),
                    None => {
                        self.wait_for_permit(bytes);
                        self.hold(Packet::Publish(publish));
                    }
                }
            }
            Admission::Hold => self.hold(Packet::Publish(publish)),
            Admission::Shed => self.shed(),
        }
    }

    fn wait_for_permit(&mut self, bytes: usize) {
        self.inbound.waiting = Some(Box::pin(self.shared.uplink.clone().permit(bytes)));
    }

    /// Drops and counts a QoS 0 message; the device spoke all the same.
    fn shed(&mut self) {
        self.count_shed(1);
        self.session.handle_bytes(Instant::now());
    }

    fn hold(&mut self, packet: Packet) {
        self.shared.metrics.held.inc();
        self.inbound.held = Some(Box::new(packet));
    }

    /// Answers the PINGREQs behind what is held (G27). QoS 0 that fills the room for looking ahead is shed: a device that
    /// sends both would otherwise not be heard any more.
    pub(super) fn look_ahead(&mut self) {
        let now = Instant::now();
        self.session.handle_bytes(now);
        for _ in 0..self.wire.take_pings() {
            self.inbound.answered_pings += 1;
            self.session.handle_pingreq(now);
        }
        if self.wire.inbound_bytes() >= self.shared.config.read_ahead_bytes_max {
            let shed = self.wire.shed_qos_0();
            self.count_shed(shed);
        }
    }

    /// What is behind a held packet will never be handled; but a DISCONNECT there says why the device left [MQTT-3.14.4-3].
    pub(super) fn handle_socket_closed(&mut self) {
        while let Ok(Some(packet)) = self.wire.decode() {
            if matches!(packet, Packet::Disconnect(_)) {
                self.handle_packet(packet, None);
            }
        }
        self.session.close(CloseReason::SocketClosed);
    }

    /// Stores a message of the session behind those before it.
    pub(super) fn publish(
        &mut self,
        publish: &Publish,
        message_id: Option<Box<str>>,
        permit: Option<Permit>,
    ) {
        let uplink = &self.shared.uplink;
        let prepared = uplink.prepare(&mut self.sender, publish, message_id);
        self.publish_prepared(publish, prepared, permit);
    }

    /// Stores a message of the session aside, behind those before it.
    pub(super) fn hold_until_released(
        &mut self,
        publish: &Publish,
        packet_id: PacketId,
        permit: Option<Permit>,
    ) {
        let (uplink, session) = (&self.shared.uplink, self.session.id());
        let prepared = uplink.hold(&mut self.sender, publish, packet_id, session);
        self.publish_prepared(publish, prepared, permit);
    }

    /// Stores what was held where it belongs, behind those before it.
    pub(super) fn release(&mut self, packet_id: PacketId) {
        let release = Outgoing::Release(packet_id);
        self.inbound.outgoing.push_back(release);
        self.publish_outgoing();
    }

    fn publish_prepared(
        &mut self,
        publish: &Publish,
        prepared: Result<Prepared, Error>,
        permit: Option<Permit>,
    ) {
        self.shared.metrics.publishes.inc();
        match prepared {
            Ok(prepared) => {
                self.answer(publish, prepared.message());
                self.ask_topology(publish);
                self.ask_registration(publish);
                self.inbound.outgoing.push_back(Outgoing::Message(Message {
                    is_retained: prepared.retained.is_none(),
                    prepared,
                    bytes: publish.content_bytes(),
                    permit,
                    held: None,
                }));
                self.publish_outgoing();
            }
            Err(error) => {
                self.shared.metrics.denied.inc();
                tracing::debug!(
                    device = %self.sender.device.id, topic = %publish.topic, %error, "publish denied"
                );
                self.note(Reason::Publish, &publish.topic);
                if let Some(dead) = Uplink::dead(&self.sender, publish, &error) {
                    let device = &self.sender.device.id;
                    self.shared.dead_letters.leave(device, dead);
                }
                self.session.handle_denied(error.problem());
            }
        }
    }

    /// Publishes what the session let go, as far as there is room.
    fn publish_outgoing(&mut self) {
        while self.inbound.readying.is_none()
            && self.inbound.waiting.is_none()
            && let Some(first) = self.inbound.outgoing.pop_front()
        {
            let mut first = match first {
                Outgoing::Message(message) => message,
                Outgoing::Release(packet_id) => {
                    self.inbound.readying = Some(self.read_held(packet_id));
                    continue;
                }
            };
            let bytes = first.bytes;
            first.permit = first
                .permit
                .or_else(|| self.shared.uplink.try_permit(bytes));
            match first.permit.take() {
                None => {
                    let first = Outgoing::Message(first);
                    self.inbound.outgoing.push_front(first);
                    self.wait_for_permit(bytes);
                }
                Some(permit) if first.is_retained => {
                    if let Some(place) = first.held {
                        self.inbound.released.push(self.sender.accepted, place);
                    }
                    let prepared = first.prepared;
                    let sender = &mut self.sender;
                    self.shared.uplink.publish(sender, prepared, permit);
                }
                permit => {
                    first.permit = permit;
                    let (shared, receipts) = (self.shared.clone(), self.sender.receipts.clone());
                    self.inbound.readying = Some(Box::pin(retain(shared, receipts, first)));
                }
            }
        }
        if self.inbound.outgoing.is_empty() {
            self.inbound.outgoing = VecDeque::new(); // An idle device keeps no buffer.
        }
    }

    fn read_held(&self, packet_id: PacketId) -> Readying {
        let (shared, tokens) = (self.shared.clone(), self.sender.tokens.clone());
        let session: Box<str> = self.session.id().into();
        Box::pin(async move {
            let holder = Holder {
                tokens: &tokens,
                session: &session,
            };
            let held = releasing::read(&shared, holder, packet_id).await;
            let (prepared, place) = held.ok_or(packet_id)?;
            Ok(Message {
                is_retained: prepared.retained.is_none(),
                bytes: prepared.message().wire_bytes(),
                prepared,
                permit: None,
                held: Some(place),
            })
        })
    }

    pub(super) fn handle_admitted(&mut self, permit: Permit) {
        if let Some(Outgoing::Message(first)) = self.inbound.outgoing.front_mut() {
            first.permit = Some(permit);
            self.publish_outgoing();
        } else if let Some(packet) = self.inbound.held.take() {
            self.handle_packet(*packet, Some(permit));
        }
        self.resume();
    }

    /// A message may go, or there is none to release.
    pub(super) fn handle_readied(&mut self, nothing_held: Option<PacketId>) {
        if let Some(packet_id) = nothing_held {
            self.session.handle_nothing_held(packet_id);
        }
        self.publish_outgoing();
        self.drain_outputs(None);
        self.resume();
    }

    /// Tells the session what became of the messages between the last time and `finished`, in order.
    pub(super) fn handle_finished(&mut self, finished: u64) {
        let uplink = &self.shared.uplink;
        for (number, refusal) in self.sender.receipts.take_refused() {
            uplink.finished(&mut self.sender, number, None);
            uplink.finished(&mut self.sender, number + 1, Some(&refusal));
            if refusal == Refusal::Fenced {
                self.closing = Some(CloseReason::TakenOver);
                return;
            }
            self.session
                .handle_stored(number.saturating_sub(self.inbound.finished));
            self.note(Reason::NotStored, not_stored(&refusal).words);
            self.inbound.released.refused(number);
            self.session.handle_not_stored(not_stored(&refusal));
            self.inbound.finished = number + 1;
        }
        uplink.finished(&mut self.sender, finished, None);
        self.session
            .handle_stored(finished.saturating_sub(self.inbound.finished));
        self.inbound.finished = self.inbound.finished.max(finished);
        self.forget_released();
        self.drain_outputs(None);
        self.resume();
    }

    /// Tries again with what is held, unless it waits for a permit.
    pub(super) fn resume(&mut self) {
        let waits = self.inbound.waiting.is_some() || self.held_until().is_some();
        if waits || self.inbound.is_publishing() {
            return;
        }
        match self.inbound.held.take().map(|packet| *packet) {
            Some(Packet::Publish(publish)) => self.admit(publish),
            Some(packet) if !self.session.is_settled() => {
                self.inbound.held = Some(Box::new(packet));
            }
            Some(packet) => self.handle_packet(packet, None),
            None => {}
        }
        self.handle_inbound();
    }
}

async fn retain(
    shared: Arc<Shared>,
    receipts: Arc<Receipts>,
    mut message: Message,
) -> Result<Message, PacketId> {
    if let (Some(retained), Some(claimant)) = (&message.prepared.retained, receipts.claimant()) {
        let write = || shared.retained.write(retained);
        // If it may not be written, the message will be refused as well.
        shared.ownership.write_for(claimant, write).await;
    }
    message.is_retained = true;
    Ok(message)
}
