//! What one device was sent and has not finished, in the order in which it was sent, by packet identifier.
//!
//! Packet identifiers are derived from the stream sequence where that is possible: then a crash forgets nothing, because the
//! message gets the same identifier when it is sent again, and a QoS 2 receiver knows it. Where it is not possible, one of
//! a range of its own is assigned. An identifier is not used anew before it is saved that it is free, because until then a
//! crash brings back what it was used for. A QoS 2 message that cannot be read again is released: the device may have it.

use std::collections::VecDeque;

use super::record::{InflightRecord, Source};
use crate::mqtt::{PacketId, Publish, QoS};

/// Identifiers up to here are derived; those above are assigned.
const DERIVED_MAX: u16 = 49_152;
/// The most downlinks that may be inflight. Besides them, twice as many assigned identifiers of the last record written may wait
/// for the next one, and as many of that: there always is one to assign.
pub(super) const INFLIGHT_MAX: u16 = (u16::MAX - DERIVED_MAX) / 8;

/// The downlink window of one session.
#[derive(Debug)]
pub(super) struct DownlinkWindow {
    slots: VecDeque<Slot>,
    /// The stream sequence from which identifiers are counted, once there is one.
    base: Option<u64>,
    limit: u16,
    /// Whether the session is.
    stored: bool,
    /// Identifiers that are free, which is not saved yet; the write under way saves it for the first `freed_by_write`.
    freed: Vec<PacketId>,
    freed_by_write: usize,
}

#[derive(Debug)]
struct Slot {
    packet_id: PacketId,
    qos: QoS,
    source: Source,
    state: State,
    /// Whether a crash may bring it back: not a share of QoS 1 that never was in a record.
    returns: bool,
}

#[derive(Debug)]
enum State {
    /// Of an earlier connection, and not read again yet.
    Owed,
    /// Read again; it waits for its turn.
    Ready(Box<Publish>),
    /// On its way to the device.
    Sent,
    /// PUBREC came.
    Released,
}

/// What the window knows of a packet identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inflight {
    pub(super) qos: QoS,
    pub(super) released: bool,
}

impl DownlinkWindow {
    /// `limit` is the device's Receive Maximum or ours.
    pub(super) fn new(
        limit: u16,
        base: Option<u64>,
        restored: Vec<InflightRecord>,
        stored: bool,
    ) -> Self {
        let slot = |record: InflightRecord| {
            Some(Slot {
                packet_id: PacketId::new(record.packet_id)?,
                qos: QoS::try_from(record.qos).ok()?,
                source: record.source,
                state: match record.released {
                    true => State::Released,
                    false => State::Owed,
                },
                returns: true,
            })
        };
        Self {
            slots: restored.into_iter().filter_map(slot).collect(),
            base,
            limit,
            stored,
            freed: Vec::new(),
            freed_by_write: 0,
        }
    }

    /// Where each of them came from, and whether PUBREC came for it.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&Source, bool)> {
        let is_released = |slot: &Slot| matches!(slot.state, State::Released);
        self.slots
            .iter()
            .map(move |slot| (&slot.source, is_released(slot)))
    }

    pub(super) fn base(&self) -> Option<u64> {
        self.base
    }

    /// The first subscription begins at this stream sequence: the message behind it gets the first identifier.
    ///
    /// It stays so whatever is subscribed to later. A crash may have forgotten which identifiers the device knows, and it is
    /// not to know one of them for another message.
    pub(super) fn count_from(&mut self, sequence: u64) {
        self.base.get_or_insert(sequence);
    }

    /// Sequences mean another stream from now on, and nothing of the old one can be read again. What was to be sent again is
    /// forgotten, or with QoS 2 released: those identifiers.
    pub(super) fn begin_stream(&mut self) -> Vec<PacketId> {
        self.base = Some(0);
        let owes = |slot: &Slot| matches!(slot.state, State::Owed);
        let mut released = Vec::new();
        for slot in &mut self.slots {
            if slot.source.sequence().is_some() {
                slot.source = Source::Gone;
                if owes(slot) && slot.qos == QoS::ExactlyOnce {
                    slot.state = State::Released;
                    released.push(slot.packet_id);
                }
            }
        }
        self.slots
            .retain(|slot| !(slot.source == Source::Gone && owes(slot)));
        released
    }

    /// Whether one more may be sent, and nothing that is to be sent again waits.
    pub(super) fn has_room(&self) -> bool {
        self.slots.len() < usize::from(self.limit) && !self.resends()
    }

    /// Whether something is to be sent again.
    pub(super) fn resends(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| matches!(slot.state, State::Owed | State::Ready(_)))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes a downlink in: its packet identifier, and whether it is the derived one.
    pub(super) fn send(&mut self, source: Source, qos: QoS) -> (PacketId, bool) {
        let (source, derived) = match source {
            Source::Stream(sequence) | Source::Backlog(sequence) => (
                Source::Stream(sequence),
                derive(sequence, self.base.unwrap_or(0)),
            ),
            other => (other, None),
        };
        let derived = derived.filter(|packet_id| self.is_free(*packet_id));
        let mut assigned = (DERIVED_MAX + 1..=u16::MAX).filter_map(PacketId::new);
        let packet_id = derived
            .or_else(|| assigned.find(|packet_id| self.is_free(*packet_id)))
            .expect("there are more identifiers to assign than may be in use");
        let is_shared = matches!(source, Source::Shared { .. });
        self.slots.push_back(Slot {
            packet_id,
            qos,
            source,
            state: State::Sent,
            returns: !(is_shared && qos == QoS::AtLeastOnce),
        });
        (packet_id, derived.is_some())
    }

    fn is_free(&self, packet_id: PacketId) -> bool {
        self.slots.iter().all(|slot| slot.packet_id != packet_id)
            && !self.freed.contains(&packet_id)
    }

    pub(super) fn get(&self, packet_id: PacketId) -> Option<Inflight> {
        let mut slots = self.slots.iter();
        let slot = slots.find(|slot| slot.packet_id == packet_id)?;
        Some(Inflight {
            qos: slot.qos,
            released: matches!(slot.state, State::Released),
        })
    }

    /// Where it came from.
    pub(super) fn source(&self, packet_id: PacketId) -> Option<&Source> {
        let mut slots = self.slots.iter();
        let slot = slots.find(|slot| slot.packet_id == packet_id)?;
        Some(&slot.source)
    }

    /// PUBREC came.
    pub(super) fn release(&mut self, packet_id: PacketId) {
        if let Some(slot) = self.slot(packet_id) {
            slot.state = State::Released;
        }
    }

    fn slot(&mut self, packet_id: PacketId) -> Option<&mut Slot> {
        let mut slots = self.slots.iter_mut();
        slots.find(|slot| slot.packet_id == packet_id)
    }

    /// The device is done with it, or it never comes: where it came from, if the identifier was in use.
    pub(super) fn remove(&mut self, packet_id: PacketId) -> Option<Source> {
        let place = self
            .slots
            .iter()
            .position(|slot| slot.packet_id == packet_id)?;
        let slot = self.slots.remove(place)?;
        if self.stored && slot.returns {
            self.freed.push(packet_id);
        }
        if self.slots.is_empty() {
            self.slots = VecDeque::new(); // An idle device keeps no buffer.
        }
        Some(slot.source)
    }

    /// Those of an earlier connection that wait for their PUBCOMP, in order.
    pub(super) fn released(&self) -> impl Iterator<Item = PacketId> {
        let slots = self.slots.iter();
        let released = slots.filter(|slot| matches!(slot.state, State::Released));
        released.map(|slot| slot.packet_id)
    }

    /// What has to be read again, in order.
    pub(super) fn owed(&self) -> impl Iterator<Item = (PacketId, &Source)> {
        let slots = self.slots.iter();
        let owed = slots.filter(|slot| matches!(slot.state, State::Owed));
        owed.map(|slot| (slot.packet_id, &slot.source))
    }

    /// One cannot be read again: whether it is released now, because the device may have it. QoS 1 is forgotten.
    pub(super) fn give_up(&mut self, packet_id: PacketId) -> bool {
        match self.slot(packet_id) {
            Some(slot) if !matches!(slot.state, State::Owed) => false,
            Some(slot) if slot.qos == QoS::ExactlyOnce => {
                slot.state = State::Released;
                true
            }
            _ => {
                self.remove(packet_id);
                false
            }
        }
    }

    /// One was read again.
    pub(super) fn ready(&mut self, packet_id: PacketId, publish: Publish) {
        if let Some(slot) = self.slot(packet_id)
            && matches!(slot.state, State::Owed)
        {
            slot.state = State::Ready(Box::new(publish));
        }
    }

    /// The next that is sent again: in order, and no more than the device takes now.
    pub(super) fn pop_resend(&mut self) -> Option<Publish> {
        let underway = |slot: &&Slot| matches!(slot.state, State::Sent | State::Released);
        if self.slots.iter().filter(underway).count() >= usize::from(self.limit) {
            return None;
        }
        let mut slots = self.slots.iter_mut();
        let next = slots.find(|slot| matches!(slot.state, State::Owed | State::Ready(_)))?;
        if matches!(next.state, State::Owed) {
            return None;
        }
        match std::mem::replace(&mut next.state, State::Sent) {
            State::Ready(mut publish) => {
                publish.dup = true; // [MQTT-3.3.1-1]
                publish.qos = next.qos;
                publish.packet_id = Some(next.packet_id); // [MQTT-4.4.0-1]
                Some(*publish)
            }
            State::Owed | State::Sent | State::Released => None,
        }
    }

    /// What another connection has to go on with: of a stream that is gone, only to release.
    pub(super) fn records(&self) -> Vec<InflightRecord> {
        let record = |slot: &Slot| {
            let is_gone = slot.source == Source::Gone;
            (!is_gone || slot.qos == QoS::ExactlyOnce).then(|| InflightRecord {
                packet_id: slot.packet_id.get(),
                qos: slot.qos as u8,
                released: is_gone || matches!(slot.state, State::Released),
                source: slot.source.clone(),
            })
        };
        self.slots.iter().filter_map(record).collect()
    }

    /// A write of [`Self::records`] begins.
    pub(super) fn save(&mut self) {
        self.freed_by_write = self.freed.len();
        for slot in &mut self.slots {
            slot.returns = true;
        }
    }

    /// That write is done.
    pub(super) fn saved(&mut self) {
        self.freed.drain(..self.freed_by_write);
        self.freed_by_write = 0;
        if self.freed.is_empty() {
            self.freed = Vec::new(); // An idle device keeps no buffer.
        }
    }
}

/// The packet identifier of a message of the delivery stream, the same each time: 1 for the one behind `base`.
fn derive(sequence: u64, base: u64) -> Option<PacketId> {
    let place = sequence.wrapping_sub(base).wrapping_sub(1) % u64::from(DERIVED_MAX);
    PacketId::new(u16::try_from(place).ok()? + 1)
}

#[cfg(test)]
#[path = "downlink_window_tests.rs"]
mod tests;
