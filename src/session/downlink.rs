//! The way down: what is delivered and with what, what the device answers, and what is sent again on a new connection.
//!
//! Invariants: never more downlinks are inflight than the device agreed to. First goes what is sent again, in order; then
//! retained messages; then what is live. A packet identifier that a crash would forget is saved before it is sent, and so is
//! a PUBREC before its PUBREL: a QoS 2 message is delivered once, whatever happens.

use std::collections::VecDeque;
use std::sync::Arc;

use super::downlink_window::Inflight;
use super::record::Source;
use super::{Delivered, Incoming, Output, Session};
use crate::mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, TopicFilter};

/// Retained messages that wait for room, each for the subscription to that filter. Never empty.
#[derive(Debug, Default)]
pub(super) struct WaitingRetained(VecDeque<(TopicFilter, Publish)>);

impl Session {
    /// Whether a downlink may be handed over now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let before = |output: &Output| {
            matches!(output, Output::Send(Packet::Suback(_) | Packet::Publish(_)))
        };
        // [MQTT-3.3.4-9]
        self.downlink.has_room()
            && self.fetching == 0
            && self.retained.is_none()
            && !self.gate.holds(before)
    }

    /// Sends a downlink; only while [`Self::has_room`], and those of the delivery stream in its order.
    pub fn handle_downlink(&mut self, incoming: Incoming) -> Delivered {
        let Incoming {
            mut publish,
            source,
            own,
        } = incoming;
        if let Source::Stream(sequence) | Source::Backlog(sequence) = source {
            if sequence <= self.taken {
                return Delivered::Skipped;
            }
            self.taken = sequence;
        }
        let delivery = match self.subscriptions.delivery(&publish.topic, &source, own) {
            Ok(delivery) => delivery,
            Err(not_delivered) => return not_delivered,
        };
        publish.qos = publish.qos.min(delivery.qos); // [MQTT-3.8.4-8]
        if publish.qos == QoS::AtMostOnce && matches!(source, Source::Backlog(_)) {
            return Delivered::Missed;
        }
        publish.retain &= delivery.retain_as_published; // [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        publish.properties.subscription_identifiers = delivery.identifiers;
        Delivered::Sent(self.deliver(publish, source))
    }

    /// Sends a message that is stored nowhere, with QoS 0, if a filter matches its topic; whether one does. Nothing of it is kept,
    /// and no window holds it back.
    pub fn handle_request(&mut self, mut publish: Publish) -> bool {
        let Some(identifiers) = self.subscriptions.selecting(&publish.topic) else {
            return false;
        };
        publish.qos = QoS::AtMostOnce;
        publish.properties.subscription_identifiers = identifiers;
        self.send(Packet::Publish(publish));
        true
    }

    fn deliver(&mut self, mut publish: Publish, source: Source) -> QoS {
        let qos = publish.qos;
        publish.dup = false; // [MQTT-3.3.1-3]
        publish.packet_id = None;
        let mut is_known_after_a_crash = true;
        if qos > QoS::AtMostOnce {
            let is_shared = matches!(source, Source::Shared { .. });
            let (packet_id, is_derived) = self.downlink.send(source, qos);
            publish.packet_id = Some(packet_id);
            // A share of QoS 1 comes again to whoever is there then; only QoS 2 is this device's for good [MQTT-4.8.2-4].
            is_known_after_a_crash = is_derived || is_shared && qos == QoS::AtLeastOnce;
            self.dirty = true;
        }
        let output = Output::Send(Packet::Publish(publish));
        if is_known_after_a_crash {
            self.push(output);
        } else {
            self.hold(output);
        }
        qos
    }

    /// Answers [`Output::FetchRetained`] for one of its filters, also if there are none: how many of them are not kept, because
    /// too many wait. Until then nothing live is delivered, or an older value could come behind it.
    ///
    /// The others are sent as the window has room, with the retain flag and the options of that subscription.
    pub fn handle_retained(&mut self, filter: &TopicFilter, publishes: Vec<Publish>) -> usize {
        self.fetching = self.fetching.saturating_sub(1);
        let waiting = self.retained.as_ref().map_or(0, |waiting| waiting.0.len());
        let room = self.config.retained_max.saturating_sub(waiting);
        let refused = publishes.len().saturating_sub(room);
        for publish in publishes.into_iter().take(room) {
            let waiting = self.retained.get_or_insert_default();
            waiting.0.push_back((filter.clone(), publish));
        }
        refused
    }

    /// Sends the next message that is sent again, or else the next that is retained, as long as there is room.
    pub(super) fn send_waiting(&mut self) -> bool {
        if let Some(publish) = self.downlink.pop_resend() {
            self.send(Packet::Publish(publish));
            return true;
        }
        while self.downlink.has_room()
            && let Some((filter, mut publish)) = self.next_retained()
        {
            if let Some(delivery) = self.subscriptions.delivery_of(&filter) {
                publish.qos = publish.qos.min(delivery.qos);
                publish.retain = true;
                publish.properties.subscription_identifiers = delivery.identifiers;
                let source = Source::Retained((*publish.topic).into());
                self.deliver(publish, source);
                return true;
            }
        }
        false
    }

    fn next_retained(&mut self) -> Option<(TopicFilter, Publish)> {
        let waiting = self.retained.as_mut()?;
        let next = waiting.0.pop_front();
        if waiting.0.is_empty() {
            self.retained = None;
        }
        next
    }

    /// What has to be read again because an earlier connection did not finish it, in order: answered with
    /// [`Self::handle_resend`]. Until all of it is, nothing else is delivered.
    #[must_use]
    pub fn to_resend(&self) -> Vec<(PacketId, Source)> {
        let owed = self.downlink.owed();
        owed.map(|(packet_id, source)| (packet_id, source.clone()))
            .collect()
    }

    /// One of [`Self::to_resend`]; none: it is gone (expired or purged). The device may have it all the same: with QoS 2 it
    /// is released, or its packet identifier would stand for an old message there.
    pub fn handle_resend(&mut self, packet_id: PacketId, publish: Option<Publish>) {
        let Some(mut publish) = publish else {
            self.dirty = true;
            if self.downlink.give_up(packet_id) {
                self.hold(pubrel(packet_id));
            }
            return;
        };
        let Some(source) = self.downlink.source(packet_id) else {
            return;
        };
        // Also if it was unsubscribed meanwhile [MQTT-3.10.4-3].
        let delivery = self.subscriptions.delivery(&publish.topic, source, false);
        let delivery = delivery.ok();
        let as_published = delivery.as_ref().is_some_and(|it| it.retain_as_published);
        publish.retain = matches!(source, Source::Retained(_)) || publish.retain && as_published;
        publish.properties.subscription_identifiers =
            delivery.map_or_else(Vec::new, |it| it.identifiers);
        self.downlink.ready(packet_id, publish);
    }

    /// What the device may answer: not what still waits for a write, although it could guess the identifier.
    fn inflight(&self, packet_id: PacketId) -> Option<Inflight> {
        let is_it = |output: &Output| match output {
            Output::Send(Packet::Publish(publish)) => publish.packet_id == Some(packet_id),
            _ => false,
        };
        self.downlink
            .get(packet_id)
            .filter(|_| !self.gate.holds(is_it))
    }

    /// An unknown identifier is an answer to an earlier connection's message: nothing waits for it.
    pub(super) fn handle_puback(&mut self, ack: &Ack) -> Result<(), ReasonCode> {
        match self.inflight(ack.packet_id) {
            Some(inflight) if inflight.qos != QoS::AtLeastOnce => {
                return Err(ReasonCode::ProtocolError);
            }
            Some(_) => self.settle(ack),
            None => {}
        }
        Ok(())
    }

    pub(super) fn handle_pubrec(&mut self, ack: &Ack) -> Result<(), ReasonCode> {
        let packet_id = ack.packet_id;
        match self.inflight(packet_id) {
            Some(inflight) if inflight.qos != QoS::ExactlyOnce => {
                return Err(ReasonCode::ProtocolError);
            }
            Some(_) if ack.reason.is_error() => self.settle(ack), // [MQTT-4.4.0-2]
            Some(inflight) => {
                // One that waits to be sent is the answer to this PUBREC too.
                if !inflight.released {
                    self.downlink.release(packet_id);
                    self.hold(pubrel(packet_id)); // [MQTT-4.3.3-4]
                } else if !self.gate.holds(|output| *output == pubrel(packet_id)) {
                    self.push(pubrel(packet_id));
                }
            }
            None if ack.reason.is_error() => {}
            // Not 0x92: a device that sends PUBREC again after a crash has done nothing wrong.
            None => self.push(pubrel(packet_id)),
        }
        Ok(())
    }

    pub(super) fn handle_pubcomp(&mut self, ack: &Ack) -> Result<(), ReasonCode> {
        match self.inflight(ack.packet_id) {
            Some(inflight) if !inflight.released => return Err(ReasonCode::ProtocolError),
            Some(_) => {
                // That the device does not know the identifier any more says that it is done with it.
                let done = Ack::new(ack.packet_id, ReasonCode::Success);
                self.settle(&done);
            }
            None => {}
        }
        Ok(())
    }

    /// The device is done with a downlink.
    fn settle(&mut self, ack: &Ack) {
        if let Some(source) = self.downlink.remove(ack.packet_id) {
            self.dirty = true;
            let outcome = match ack.reason.is_error() {
                true => Err(ack.reason),
                false => Ok(()),
            };
            self.push(Output::Settled { source, outcome });
        }
    }

    /// The last downlink cannot be written: larger than the device takes, or not expressible in MQTT. The next one can.
    /// Where it came from, if it had a packet identifier.
    pub fn handle_undeliverable(&mut self, packet_id: Option<PacketId>) -> Option<Source> {
        let source = self.downlink.remove(packet_id?)?;
        self.dirty = true;
        Some(source)
    }

    /// Downlinks that the device has been sent and has not acknowledged.
    #[must_use]
    pub fn unacknowledged_downlinks(&self) -> usize {
        self.downlink.len()
    }

    /// The last PUBLISH that [`Self::poll_output`] gave cannot be written: whether it could be without the topic alias that it sets,
    /// which it does not any more. The device never saw it, so nothing else may use it.
    pub fn withdraw_topic_alias(&mut self, publish: &mut Publish) -> bool {
        self.downlink_aliases.withdraw(publish)
    }

    /// Whether the device may have half of a downlink that is to be sent again: then nothing but the end of the session ends it.
    #[must_use]
    pub fn is_half_delivered(&self, packet_id: PacketId) -> bool {
        let inflight = self.downlink.get(packet_id);
        inflight.is_some_and(|inflight| inflight.qos == QoS::ExactlyOnce)
    }

    /// Where the downlink with this packet identifier came from, if it is inflight.
    #[must_use]
    pub fn source_of(&self, packet_id: PacketId) -> Option<&Source> {
        self.downlink.source(packet_id)
    }

    /// Where what the device has not finished came from, in order, and whether PUBREC came for it.
    pub fn unfinished(&self) -> impl Iterator<Item = (&Source, bool)> {
        self.downlink.unfinished()
    }

    /// The highest stream sequence that was handed over, or that does not concern the session.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The delivery stream is this one from now on: whether it is another than the session knew. Then that one is gone:
    /// sequences of it mean nothing, and everything in the new one is new.
    pub fn begin_stream(&mut self, stream: Arc<str>) -> bool {
        let is_another = *self.stream != *stream;
        if is_another {
            self.stream = stream;
            self.taken = 0;
            self.subscriptions.begin();
            self.dirty = true;
            for packet_id in self.downlink.begin_stream() {
                self.hold(pubrel(packet_id));
            }
        }
        is_another
    }

    /// Nothing up to this stream sequence concerns the session, unless it was handed over.
    pub fn skip_to(&mut self, sequence: u64) {
        self.taken = self.taken.max(sequence);
    }
}

fn pubrel(packet_id: PacketId) -> Output {
    Output::Send(Packet::Pubrel(Ack::new(packet_id, ReasonCode::Success)))
}
