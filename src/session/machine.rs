//! The session of one connected device: packets and outcomes in, packets and messages out.
//!
//! Invariants: PUBACKs leave in PUBLISH order; a PUBACK below 0x80 leaves only after the stream stored the message (or, in
//! 3.1.1 alone, after a denial, which that version cannot express); never more unacknowledged downlinks than the device
//! agreed to. A violation of the protocol is an error that ends the connection and nothing else.

use std::collections::VecDeque;
use std::time::Instant;

use bytestring::ByteString;

use super::connect::Agreement;
use super::inflight::{DownlinkWindow, UplinkWindow};
use super::keep_alive::KeepAlive;
use super::subscriptions::Subscriptions;
use super::topic_alias::{DownlinkAliases, UplinkAliases};
use super::{CloseReason, Config, Problem};
use crate::mqtt::{
    Ack, Disconnect, Packet, PacketId, Publish, QoS, ReasonCode, Suback, Subscribe, Unsuback,
    Unsubscribe, UserProperties, Version,
};

/// What the connection has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write this packet.
    Send(Packet),
    /// Store this message; it counts in the window until `handle_stored`, `handle_not_stored` or `handle_denied`.
    Publish(Publish),
    /// Decide which filters are allowed, then call `handle_authorized`.
    Authorize(Subscribe),
    /// Write what is left, then close.
    Close(CloseReason),
}

/// Whether a PUBLISH may enter the session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Feed it.
    Admit,
    /// Keep it and read no further until something was stored.
    Hold,
    /// Drop and count it: QoS 0 beyond the window.
    Shed,
}

/// What became of a downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the output.
    Sent,
    /// No filter of this session matches.
    NotSubscribed,
}

/// One connected device.
#[derive(Debug)]
pub struct Session {
    version: Version,
    uplink_inflight_max: u16,
    uplink_inflight_bytes_max: usize,
    subscriptions_max: usize,
    session_expiry_asked: bool,
    problem_information: bool,
    keep_alive: KeepAlive,
    uplink: UplinkWindow,
    downlink: DownlinkWindow,
    uplink_aliases: UplinkAliases,
    downlink_aliases: DownlinkAliases,
    subscriptions: Subscriptions,
    outputs: VecDeque<Output>,
    /// Set with the first `Close`: nothing is acknowledged behind it.
    closed: bool,
}

impl Session {
    /// A session whose first output is the CONNACK.
    #[must_use]
    pub fn new(agreement: Agreement, config: &Config, now: Instant) -> Self {
        Self {
            version: agreement.version,
            uplink_inflight_max: config.uplink_inflight_max,
            uplink_inflight_bytes_max: config.uplink_inflight_bytes_max,
            subscriptions_max: config.subscriptions_max,
            session_expiry_asked: agreement.session_expiry_asked,
            problem_information: agreement.problem_information,
            keep_alive: KeepAlive::new(agreement.keep_alive_s, now),
            uplink: UplinkWindow::default(),
            downlink: DownlinkWindow::new(agreement.downlink_inflight_max),
            uplink_aliases: UplinkAliases::new(config.uplink_topic_alias_max),
            downlink_aliases: DownlinkAliases::new(agreement.downlink_topic_alias_max),
            subscriptions: Subscriptions::default(),
            outputs: VecDeque::from([Output::Send(Packet::Connack(agreement.connack))]),
            closed: false,
        }
    }

    /// Whether a PUBLISH may be fed to [`Self::handle_packet`] now; it gets its topic name if an alias stands for that.
    ///
    /// Every PUBLISH comes by here in the order received, one that is shed too, because it may set an alias.
    /// An MQTT 5 device knows its window and gets 0x93 beyond it there; one that speaks 3.1.1 is held back.
    ///
    /// # Errors
    /// A topic alias against the protocol; the connection ends with that Reason Code.
    pub fn admission(&mut self, publish: &mut Publish) -> Result<Admission, ReasonCode> {
        self.uplink_aliases.resolve(publish)?;
        let bytes_full = !self.uplink.is_empty()
            && self.uplink.bytes() + cost_bytes(publish) > self.uplink_inflight_bytes_max;
        let count_full = self.version == Version::V3_1_1
            && self.uplink.unacknowledged() >= self.uplink_inflight_max;
        Ok(match publish.qos {
            QoS::AtMostOnce if bytes_full => Admission::Shed,
            QoS::AtMostOnce => Admission::Admit,
            _ if bytes_full || count_full => Admission::Hold,
            _ => Admission::Admit,
        })
    }

    /// Feeds one packet from the device.
    ///
    /// # Errors
    /// A violation of the protocol; the connection ends with that Reason Code.
    pub fn handle_packet(&mut self, now: Instant, packet: Packet) -> Result<(), ReasonCode> {
        self.keep_alive.heard(now);
        match packet {
            Packet::Publish(publish) => self.handle_publish(publish)?,
            Packet::Puback(ack) => {
                // An unknown identifier is an answer to an earlier connection's message: nothing waits for it.
                self.downlink.acknowledge(ack.packet_id);
            }
            Packet::Subscribe(subscribe) => self.outputs.push_back(Output::Authorize(subscribe)),
            Packet::Unsubscribe(unsubscribe) => self.handle_unsubscribe(unsubscribe),
            Packet::Pingreq => self.handle_pingreq(now),
            Packet::Disconnect(disconnect) => self.handle_disconnect(&disconnect)?,
            // A second CONNECT [MQTT-3.1.0-2], what only a server sends, an AUTH nobody asked for, and the packets of QoS 2,
            // which was announced as unavailable.
            Packet::Connect(_)
            | Packet::Connack(_)
            | Packet::Suback(_)
            | Packet::Unsuback(_)
            | Packet::Pingresp
            | Packet::Auth(_)
            | Packet::Pubrec(_)
            | Packet::Pubrel(_)
            | Packet::Pubcomp(_) => return Err(ReasonCode::ProtocolError),
        }
        Ok(())
    }

    fn handle_publish(&mut self, mut publish: Publish) -> Result<(), ReasonCode> {
        self.uplink_aliases.resolve(&mut publish)?;
        if publish.qos == QoS::ExactlyOnce {
            return Err(ReasonCode::QoSNotSupported); // [MQTT-3.2.2-11]
        }
        if publish.retain {
            return Err(ReasonCode::RetainNotSupported); // [MQTT-3.2.2-14]
        }
        if !publish.properties.subscription_identifiers.is_empty() {
            return Err(ReasonCode::ProtocolError); // [MQTT-3.3.4-6]
        }
        if publish.packet_id.is_some() && self.uplink.unacknowledged() >= self.uplink_inflight_max {
            return Err(ReasonCode::ReceiveMaximumExceeded); // [MQTT-3.3.4-9]
        }
        self.uplink.push(publish.packet_id, cost_bytes(&publish));
        self.outputs.push_back(Output::Publish(publish));
        Ok(())
    }

    /// Answers a SUBSCRIBE: `allowed` says for each filter whether the device may have it, or why not.
    pub fn handle_authorized(
        &mut self,
        subscribe: Subscribe,
        allowed: impl Fn(&str) -> Result<(), Problem>,
    ) {
        let limit = self.subscriptions_max;
        let mut words = Vec::new();
        let mut reasons = Vec::with_capacity(subscribe.filters.len());
        for asked in subscribe.filters {
            let identifier = subscribe.identifier;
            let granted = self
                .subscriptions
                .subscribe(asked, identifier, limit, &allowed);
            reasons.push(match granted {
                Ok(QoS::AtMostOnce) => ReasonCode::Success,
                Ok(_) => ReasonCode::GrantedQoS1,
                Err(problem) => {
                    if !words.contains(&problem.words) {
                        words.push(problem.words);
                    }
                    self.suback_code(problem.reason)
                }
            });
        }
        // [MQTT-3.8.4-1], [MQTT-3.8.4-6]
        self.send(Packet::Suback(Suback {
            packet_id: subscribe.packet_id,
            reasons,
            reason_string: self.reason_string(&words.join("; ")),
            user: UserProperties::default(),
        }));
    }

    /// Why something was refused, unless the device does not want to know or nothing was. // [MQTT-3.1.2-29]
    fn reason_string(&self, words: &str) -> Option<ByteString> {
        (self.problem_information && !words.is_empty()).then(|| words.into())
    }

    /// 3.1.1 has one failure code, 0x80.
    fn suback_code(&self, reason: ReasonCode) -> ReasonCode {
        match self.version {
            Version::V3_1_1 => ReasonCode::UnspecifiedError,
            Version::V5 => reason,
        }
    }

    fn handle_unsubscribe(&mut self, unsubscribe: Unsubscribe) {
        let reasons = unsubscribe
            .filters
            .iter()
            .map(|filter| match self.subscriptions.remove(filter) {
                true => ReasonCode::Success,
                false => ReasonCode::NoSubscriptionExisted,
            })
            .collect();
        // [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        self.send(Packet::Unsuback(Unsuback {
            packet_id: unsubscribe.packet_id,
            reasons,
            reason_string: None,
            user: UserProperties::default(),
        }));
    }

    fn handle_disconnect(&mut self, disconnect: &Disconnect) -> Result<(), ReasonCode> {
        let expiry_s = disconnect.session_expiry_interval.unwrap_or(0);
        if expiry_s > 0 && !self.session_expiry_asked {
            return Err(ReasonCode::ProtocolError); // [MQTT-3.14.2-2]
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

    /// The last `Output::Publish` may not be stored: not this device's topic, or not mappable.
    ///
    /// MQTT 5 is told why. 3.1.1 has no negative PUBACK: it is acknowledged and discarded [MQTT-3.3.5-2].
    pub fn handle_denied(&mut self, problem: Problem) {
        self.uplink.settle_last(match self.version {
            Version::V3_1_1 => Ok(()),
            Version::V5 => Err(problem),
        });
        self.send_pubacks();
    }

    /// The stream stored the oldest `count` messages that it had not finished.
    pub fn handle_stored(&mut self, count: u64) {
        if self.closed {
            return;
        }
        self.uplink.settle_first(count, Ok(()));
        self.send_pubacks();
    }

    /// The stream refused the oldest message it had. 3.1.1 cannot be told, so it is cut off without the PUBACK it waits for.
    pub fn handle_not_stored(&mut self, problem: Problem) {
        if self.version == Version::V3_1_1 && self.uplink.owes_answer() {
            self.close(CloseReason::NotStored);
        } else {
            self.uplink.settle_first(1, Err(problem));
            self.send_pubacks();
        }
    }

    fn send_pubacks(&mut self) {
        // In PUBLISH order [MQTT-4.6.0-2].
        while let Some((packet_id, outcome)) = self.uplink.pop_settled() {
            let mut ack = Ack::new(packet_id, ReasonCode::Success);
            if let Err(problem) = outcome {
                ack.reason = problem.reason;
                ack.reason_string = self.reason_string(problem.words);
            }
            self.send(Packet::Puback(ack));
        }
    }

    /// Ends the session: what is in the output already still goes out.
    pub fn close(&mut self, reason: CloseReason) {
        if !self.closed {
            self.closed = true;
            self.outputs.push_back(Output::Close(reason));
        }
    }

    /// Whether every message from the device has been answered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.uplink.is_empty()
    }

    /// Whether a downlink may be handed over now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.downlink.has_room() // [MQTT-3.3.4-9]
    }

    /// Sends a downlink, `stream_sequence` its place in the stored order; only while [`Self::has_room`].
    pub fn handle_downlink(&mut self, mut publish: Publish, stream_sequence: u64) -> Delivered {
        let Some(delivery) = self.subscriptions.delivery(&publish.topic) else {
            return Delivered::NotSubscribed;
        };
        publish.qos = publish.qos.min(delivery.qos);
        publish.properties.subscription_identifiers = delivery.identifiers;
        publish.packet_id = match publish.qos {
            QoS::AtMostOnce => {
                self.downlink.sent(stream_sequence);
                None
            }
            _ => Some(self.downlink.send(stream_sequence)),
        };
        self.send(Packet::Publish(publish));
        Delivered::Sent
    }

    /// The last downlink cannot be written: larger than the device takes, or not expressible in MQTT. The next one can.
    pub fn handle_undeliverable(&mut self, packet_id: Option<PacketId>) {
        if let Some(packet_id) = packet_id {
            self.downlink.acknowledge(packet_id);
        }
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

    /// Every downlink up to this stream sequence is done with.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.downlink.cursor()
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

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        let mut output = self.outputs.pop_front();
        match &mut output {
            // Aliases follow the order on the wire, so they are put in at its beginning.
            Some(Output::Send(Packet::Publish(publish))) => self.downlink_aliases.apply(publish),
            Some(_) => {}
            None => self.outputs = VecDeque::new(), // An idle device keeps no buffer.
        }
        output
    }

    fn send(&mut self, packet: Packet) {
        self.outputs.push_back(Output::Send(packet));
    }
}

/// What a message takes while it waits: its content, and a share for what is kept beside it, or many empty ones were free.
fn cost_bytes(publish: &Publish) -> usize {
    const BESIDE_BYTES: usize = 512;
    publish.content_bytes() + BESIDE_BYTES
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
