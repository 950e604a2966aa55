//! The way up: PUBLISH, PUBREL, and what became of the messages.
//!
//! Invariants: a PUBACK or PUBREC below 0x80 leaves only after the stream stored the message (or, in 3.1.1 alone, after a
//! denial, which that version cannot express), and in PUBLISH order. A QoS 2 message of a stored session has its id saved
//! before it is published, so that it keeps that id across any crash; messages behind it wait too (G-ORDER, G-ONCE). Where it is
//! published at its PUBREL it is held until then, outside of the session: what is held is the record, and nothing is saved.

use super::unreleased::Progress;
use super::uplink_window::Owed;
use super::{Admission, CloseReason, Output, Problem, Session};
use crate::mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Version};

impl Session {
    /// Whether a PUBLISH may be fed to [`Self::handle_packet`] now; it gets its topic name if an alias stands for that.
    ///
    /// Every PUBLISH comes by here in the order received, one that is shed too, because it may set an alias.
    /// An MQTT 5 device knows its window and gets 0x93 beyond it there; one that speaks 3.1.1 is held back, but only for
    /// what the gateway owes: its own PUBREL would wait behind the message that is held.
    ///
    /// # Errors
    /// A topic alias against the protocol; the connection ends with that Reason Code.
    pub fn admission(&mut self, publish: &mut Publish) -> Result<Admission, ReasonCode> {
        self.uplink_aliases.resolve(publish)?;
        let bytes_full = !self.uplink.is_empty()
            && self.uplink.bytes() + cost_bytes(publish) > self.config.uplink_inflight_bytes_max;
        let count_full = self.version == Version::V3_1_1
            && self.uplink.unacknowledged() >= self.config.uplink_inflight_max;
        Ok(match publish.qos {
            QoS::AtMostOnce if bytes_full => Admission::Shed,
            QoS::AtMostOnce => Admission::Admit,
            _ if bytes_full || count_full => Admission::Hold,
            _ => Admission::Admit,
        })
    }

    pub(super) fn handle_publish(&mut self, mut publish: Publish) -> Result<(), ReasonCode> {
        self.uplink_aliases.resolve(&mut publish)?;
        if !publish.properties.subscription_identifiers.is_empty() {
            return Err(ReasonCode::ProtocolError); // [MQTT-3.3.4-6]
        }
        match (publish.qos, publish.packet_id) {
            (QoS::ExactlyOnce, Some(packet_id)) => self.handle_exactly_once(publish, packet_id),
            (_, packet_id) => {
                if packet_id.is_some() {
                    self.check_receive_maximum(publish.qos)?;
                }
                let owed = match packet_id {
                    Some(packet_id) => Owed::Puback(packet_id),
                    None => Owed::Nothing,
                };
                self.publish_in_order(publish, None, owed);
                Ok(())
            }
        }
    }

    /// A message that is here already is answered, and not published (G06). // [MQTT-4.3.3-10]
    fn handle_exactly_once(
        &mut self,
        publish: Publish,
        packet_id: PacketId,
    ) -> Result<(), ReasonCode> {
        match self.unreleased.progress(packet_id) {
            None => {
                self.check_receive_maximum(publish.qos)?;
                if self.config.publishes_at_release {
                    self.unreleased.receive(packet_id, None);
                    self.take(&publish, Owed::Pubrec(packet_id));
                    self.push(Output::Hold { publish, packet_id });
                    return Ok(());
                }
                self.received += 1;
                let message_id = self
                    .stored
                    .then(|| format!("{}.{packet_id}.{}", self.id, self.received).into_boxed_str());
                self.unreleased.receive(packet_id, message_id.clone());
                // Published under an id that is saved first.
                self.take(&publish, Owed::Pubrec(packet_id));
                self.hold(Output::Publish {
                    publish,
                    message_id,
                });
            }
            Some(Progress::Unknown) => {
                // Its id is stored: nothing need be saved before it is published again.
                let message_id = self.unreleased.republish(packet_id);
                self.publish_in_order(publish, message_id, Owed::Pubrec(packet_id));
            }
            Some(Progress::Publishing) => {}
            // In use until PUBCOMP [MQTT-2.2.1-3].
            Some(Progress::Releasing) => return Err(ReasonCode::ProtocolError),
            Some(Progress::Stored) => {
                self.send(Packet::Pubrec(Ack::new(packet_id, ReasonCode::Success)));
            }
        }
        Ok(())
    }

    /// Receive Maximum counts QoS 1 and 2 until PUBACK, PUBCOMP or a PUBREC that refuses; 3.1.1 does not know of it, and
    /// only has a limit for what it does not release.
    fn check_receive_maximum(&self, qos: QoS) -> Result<(), ReasonCode> {
        let within = match self.version {
            Version::V3_1_1 => {
                let unreleased = self.unreleased.len();
                qos != QoS::ExactlyOnce
                    || unreleased < usize::from(self.config.uplink_unreleased_max)
            }
            Version::V5 => {
                let waiting = usize::from(self.uplink.unacknowledged());
                waiting + self.unreleased.received() < usize::from(self.config.uplink_inflight_max)
            }
        };
        // [MQTT-3.3.4-9]
        within
            .then_some(())
            .ok_or(ReasonCode::ReceiveMaximumExceeded)
    }

    /// Publishes a message behind those that wait until they are saved.
    fn publish_in_order(&mut self, publish: Publish, message_id: Option<Box<str>>, owed: Owed) {
        self.take(&publish, owed);
        let output = Output::Publish {
            publish,
            message_id,
        };
        let waits = |output: &Output| matches!(output, Output::Publish { .. });
        if self.gate.holds(waits) {
            self.follow(output);
        } else {
            self.push(output);
        }
    }

    fn take(&mut self, publish: &Publish, owed: Owed) {
        self.uplink.push(owed, cost_bytes(publish));
    }

    /// The device lets go of a QoS 2 message.
    pub(super) fn handle_pubrel(&mut self, packet_id: PacketId) -> Result<(), ReasonCode> {
        match self.unreleased.progress(packet_id) {
            // Before PUBREC there is nothing to release.
            Some(Progress::Publishing) => return Err(ReasonCode::ProtocolError),
            Some(Progress::Releasing) => {}
            _ if self.config.publishes_at_release => {
                self.unreleased.release(packet_id);
                self.uplink.push(Owed::Pubcomp(packet_id), 0);
                self.push(Output::Release(packet_id));
            }
            Some(Progress::Unknown | Progress::Stored) => {
                self.unreleased.remove(packet_id);
                let pubcomp = Packet::Pubcomp(Ack::new(packet_id, ReasonCode::Success));
                self.hold(Output::Send(pubcomp)); // [MQTT-4.3.3-11]
            }
            None => {
                // Not 0x92: a device that sends PUBREL again after a crash has done nothing wrong.
                self.send(Packet::Pubcomp(Ack::new(packet_id, ReasonCode::Success)));
            }
        }
        Ok(())
    }

    /// The last `Output::Publish` may not be stored: not this device's topic, or not mappable.
    ///
    /// MQTT 5 is told why. 3.1.1 has no negative answer: it is acknowledged and discarded [MQTT-3.3.5-2].
    pub fn handle_denied(&mut self, problem: Problem) {
        self.uplink.settle_last(match self.version {
            Version::V3_1_1 => Ok(()),
            Version::V5 => Err(problem),
        });
        self.answer();
    }

    /// Nothing is held under the packet identifier of an `Output::Release`: it was released before.
    pub fn handle_nothing_held(&mut self, packet_id: PacketId) {
        self.uplink.settle_release(packet_id);
        self.answer();
    }

    /// The stream stored the oldest `count` messages that it had not finished.
    pub fn handle_stored(&mut self, count: u64) {
        if self.closed {
            return;
        }
        self.uplink.settle_first(count, Ok(()));
        self.answer();
    }

    /// The stream refused the oldest message it had. 3.1.1 cannot be told, so it is cut off without the answer it waits for;
    /// so is whoever waits for a PUBCOMP, which cannot say it either.
    pub fn handle_not_stored(&mut self, problem: Problem) {
        if self.closed {
            return;
        }
        match self.uplink.owed_first() {
            Owed::Puback(_) | Owed::Pubrec(_) if self.version == Version::V3_1_1 => {
                self.close(CloseReason::NotStored);
            }
            Owed::Pubcomp(_) => self.close(CloseReason::NotStored),
            Owed::Nothing | Owed::Puback(_) | Owed::Pubrec(_) => {
                self.uplink.settle_first(1, Err(problem));
                self.answer();
            }
        }
    }

    fn answer(&mut self) {
        // In PUBLISH order [MQTT-4.6.0-2].
        while let Some((owed, outcome)) = self.uplink.pop_settled() {
            let (Owed::Puback(packet_id) | Owed::Pubrec(packet_id) | Owed::Pubcomp(packet_id)) =
                owed
            else {
                continue;
            };
            let mut ack = Ack::new(packet_id, ReasonCode::Success);
            if let Err(problem) = outcome {
                ack.reason = problem.reason;
                ack.reason_string = self.reason_string(problem.words);
            }
            let packet = match owed {
                Owed::Pubrec(_) => {
                    match outcome {
                        Ok(()) => self.unreleased.store(packet_id),
                        Err(_) => self.unreleased.remove(packet_id), // [MQTT-4.3.3-9]
                    }
                    self.dirty |= !self.config.publishes_at_release;
                    Packet::Pubrec(ack)
                }
                Owed::Pubcomp(_) => {
                    self.unreleased.remove(packet_id);
                    Packet::Pubcomp(ack) // [MQTT-4.3.3-11]
                }
                Owed::Nothing | Owed::Puback(_) => Packet::Puback(ack),
            };
            self.send(packet);
        }
    }

    /// Whether something of this session may be held that is not released.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        self.config.publishes_at_release && (self.stored || self.unreleased.len() > 0)
    }

    /// Messages that were fed and are not in an `Output::Publish` yet: they wait until the session is saved.
    #[must_use]
    pub fn unpublished(&self) -> usize {
        self.uplink.taken()
    }
}

/// What a message takes while it waits: its content, and a share for what is kept beside it, or many empty ones were free.
fn cost_bytes(publish: &Publish) -> usize {
    const BESIDE_BYTES: usize = 512;
    publish.content_bytes() + BESIDE_BYTES
}
