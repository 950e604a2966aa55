//! The session of one device: packets and outcomes in, packets and messages out.
//!
//! This is its frame: the state, the packets in, the outputs in order, the record, and the end. The ways up and down and the
//! subscriptions are parts of the same machine in files of their own. A violation of the protocol is an error that ends the
//! connection and nothing else. What promises something of a stored session leaves only after that is saved (`gate`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::connect::Agreement;
use super::downlink::WaitingRetained;
use super::downlink_window::DownlinkWindow;
use super::gate::Gate;
use super::keep_alive::KeepAlive;
use super::record::{Record, Start};
use super::subscriptions::Subscriptions;
use super::topic_alias::{DownlinkAliases, UplinkAliases};
use super::unreleased::UnreleasedMessages;
use super::uplink_window::UplinkWindow;
use super::{CloseReason, Config, Output};
use crate::mqtt::{Ack, Disconnect, Packet, ReasonCode, Version};

/// One connected device.
#[derive(Debug)]
pub struct Session {
    pub(super) version: Version,
    /// The record's id.
    pub(super) id: Box<str>,
    /// Whether it outlives the connection.
    pub(super) stored: bool,
    /// Whether something is not in the last record that was given out, and nothing waits for it.
    pub(super) dirty: bool,
    /// Set with the first `Close`: nothing is acknowledged behind it.
    pub(super) closed: bool,
    pub(super) problem_information: bool,
    session_expiry_asked: bool,
    session_expiry_s: u32,
    /// Of all sessions.
    pub(super) config: Arc<Config>,
    keep_alive: KeepAlive,
    pub(super) uplink: UplinkWindow,
    pub(super) unreleased: UnreleasedMessages,
    /// QoS 2 messages received so far.
    pub(super) received: u64,
    pub(super) downlink: DownlinkWindow,
    /// Names the delivery stream that sequences are of.
    pub(super) stream: Arc<str>,
    /// The highest stream sequence that was handed over.
    pub(super) taken: u64,
    /// Boxed, because an idle device has none.
    pub(super) retained: Option<Box<WaitingRetained>>,
    /// Filters whose retained messages are being read.
    pub(super) fetching: usize,
    pub(super) uplink_aliases: UplinkAliases,
    pub(super) downlink_aliases: DownlinkAliases,
    pub(super) subscriptions: Subscriptions,
    outputs: VecDeque<Output>,
    pub(super) gate: Gate,
}

impl Session {
    /// A session whose first output is the CONNACK; PUBREL follows for each downlink whose PUBREC came on an earlier connection.
    #[must_use]
    pub fn new(agreement: Agreement, config: &Arc<Config>, start: Start, now: Instant) -> Self {
        let mut connack = agreement.connack;
        connack.session_present = start.restored.is_some(); // [MQTT-3.2.2-2], [MQTT-3.2.2-3]
        let restored = start.restored.unwrap_or_else(|| Record {
            stream: Arc::clone(&start.stream),
            ..Record::default()
        });
        let limit = agreement.downlink_inflight_max;
        let inflight = restored.inflight;
        let downlink = DownlinkWindow::new(limit, restored.base, inflight, start.stored);
        let pubrel = |packet_id| Packet::Pubrel(Ack::new(packet_id, ReasonCode::Success));
        let pubrels = downlink.released().map(pubrel); // [MQTT-4.4.0-1]
        let outputs = std::iter::once(Packet::Connack(connack)).chain(pubrels);
        let mut session = Self {
            version: agreement.version,
            id: start.id,
            stored: start.stored,
            dirty: false,
            closed: false,
            problem_information: agreement.problem_information,
            session_expiry_asked: agreement.session_expiry_asked,
            session_expiry_s: agreement.session_expiry_s,
            config: Arc::clone(config),
            keep_alive: KeepAlive::new(agreement.keep_alive_s, now),
            uplink: UplinkWindow::default(),
            unreleased: UnreleasedMessages::restore(restored.unreleased),
            received: restored.received,
            stream: restored.stream,
            taken: restored.taken,
            retained: None,
            fetching: 0,
            uplink_aliases: UplinkAliases::new(config.uplink_topic_alias_max),
            downlink_aliases: DownlinkAliases::new(agreement.downlink_topic_alias_max),
            subscriptions: Subscriptions::restore(restored.subscriptions),
            outputs: outputs.map(Output::Send).collect(),
            downlink,
            gate: Gate::default(),
        };
        session.begin_stream(start.stream);
        session
    }

    /// Names the session: the record's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Feeds one packet from the device.
    ///
    /// # Errors
    /// A violation of the protocol; the connection ends with that Reason Code.
    pub fn handle_packet(&mut self, now: Instant, packet: Packet) -> Result<(), ReasonCode> {
        self.keep_alive.heard(now);
        match packet {
            Packet::Publish(publish) => self.handle_publish(publish)?,
            Packet::Puback(ack) => self.handle_puback(&ack)?,
            Packet::Pubrec(ack) => self.handle_pubrec(&ack)?,
            Packet::Pubrel(ack) => self.handle_pubrel(ack.packet_id)?,
            Packet::Pubcomp(ack) => self.handle_pubcomp(&ack)?,
            Packet::Subscribe(subscribe) => self.push(Output::Authorize(subscribe)),
            Packet::Unsubscribe(unsubscribe) => self.handle_unsubscribe(unsubscribe),
            Packet::Pingreq => self.handle_pingreq(now),
            Packet::Disconnect(disconnect) => self.handle_disconnect(&disconnect)?,
            // A second CONNECT [MQTT-3.1.0-2], what only a server sends, and AUTH, which is not the session's.
            Packet::Connect(_)
            | Packet::Connack(_)
            | Packet::Suback(_)
            | Packet::Unsuback(_)
            | Packet::Pingresp
            | Packet::Auth(_) => return Err(ReasonCode::ProtocolError),
        }
        Ok(())
    }

    fn handle_disconnect(&mut self, disconnect: &Disconnect) -> Result<(), ReasonCode> {
        if let Some(asked_s) = disconnect.session_expiry_interval {
            if asked_s > 0 && !self.session_expiry_asked {
                return Err(ReasonCode::ProtocolError); // [MQTT-3.14.2-2]
            }
            self.session_expiry_s = asked_s.min(self.config.session_expiry_max_s);
        }
        let reason = match disconnect.reason {
            ReasonCode::Success => CloseReason::Normal,
            _ => CloseReason::NormalWithWill,
        };
        self.close(reason);
        Ok(())
    }

    /// Answers a PINGREQ; also for one that was found behind a packet that is held back.
    pub fn handle_pingreq(&mut self, now: Instant) {
        self.keep_alive.heard(now);
        self.send(Packet::Pingresp); // [MQTT-3.12.4-1]
    }

    /// The device spoke, although what it said is not handled yet.
    pub fn handle_bytes(&mut self, now: Instant) {
        self.keep_alive.heard(now);
    }

    /// Ends the session: what is in the output already still goes out.
    pub fn close(&mut self, reason: CloseReason) {
        self.push(Output::Close(reason));
        self.closed = true;
    }

    /// Whether the session has ended: a `Close` is its last output.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether every message from the device has been answered, and nothing waits for the session to be saved.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.uplink.is_empty() && self.gate.is_empty()
    }

    /// How long the session outlives the connection, in seconds; a DISCONNECT may have changed it. 0: not at all.
    #[must_use]
    pub fn session_expiry_s(&self) -> u32 {
        self.session_expiry_s
    }

    /// Time passed; closes the session if its keep alive is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.keep_alive.deadline() {
            // [MQTT-3.1.2-22]
            self.close(CloseReason::KeepAliveTimeout);
        }
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        self.keep_alive.deadline()
    }

    /// The session as it is now, to be stored.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            id: self.id.clone(),
            stream: Arc::clone(&self.stream),
            taken: self.taken,
            base: self.downlink.base(),
            received: self.received,
            subscriptions: self.subscriptions.records(),
            inflight: self.downlink.records(),
            unreleased: match self.config.publishes_at_release {
                true => Vec::new(), // What is held says it all.
                false => self.unreleased.records(),
            },
        }
    }

    /// Whether there is progress that is not in the last [`Output::Save`]; nothing waits for it.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.stored && self.dirty
    }

    /// Asks for an [`Output::Save`] if there is progress to save; one that is under way is waited for.
    pub fn save_progress(&mut self) {
        if self.is_dirty() {
            self.gate.want();
        }
    }

    /// The last [`Output::Save`] is written.
    pub fn handle_saved(&mut self) {
        self.gate.finish();
        self.downlink.saved();
    }

    /// The next thing to do.
    ///
    /// Messages that wait inside are taken out one by one, so that whoever is full may stop here and come back.
    pub fn poll_output(&mut self) -> Option<Output> {
        let mut output = self.next_output();
        match &mut output {
            // Aliases follow the order on the wire, so they are put in at its beginning.
            Some(Output::Send(Packet::Publish(publish))) => self.downlink_aliases.apply(publish),
            Some(Output::Publish { .. } | Output::Hold { .. } | Output::Release(_)) => {
                self.uplink.publish();
            }
            Some(_) => {}
            None => self.outputs = VecDeque::new(), // An idle device keeps no buffer.
        }
        output
    }

    fn next_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.closed {
            return None;
        }
        if let Some(output) = self.gate.pop() {
            return Some(output);
        }
        while self.send_waiting() {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
        }
        if !self.gate.begin() {
            return None;
        }
        // Last, so that one write is for all that waits by now.
        self.dirty = false;
        self.downlink.save();
        Some(Output::Save(self.record()))
    }

    pub(super) fn send(&mut self, packet: Packet) {
        self.push(Output::Send(packet));
    }

    pub(super) fn push(&mut self, output: Output) {
        if !self.closed {
            self.outputs.push_back(output);
        }
    }

    /// Keeps an output until the session as it is now is saved, if it is stored at all.
    pub(super) fn hold(&mut self, output: Output) {
        if self.stored {
            self.gate.hold(output);
        } else {
            self.push(output);
        }
    }

    /// Keeps an output behind those that wait.
    pub(super) fn follow(&mut self, output: Output) {
        if let Some(output) = self.gate.follow(output) {
            self.push(output);
        }
    }

    pub(super) fn hold_if(&mut self, changed: bool, output: Output) {
        if changed {
            self.hold(output);
        } else {
            self.follow(output);
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
