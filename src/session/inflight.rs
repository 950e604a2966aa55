//! The two windows of a session: uplink messages in the order they came, downlink messages by packet identifier.

use std::collections::VecDeque;

use super::Problem;
use crate::mqtt::PacketId;

/// What one device published and has not been answered yet.
///
/// PUBACKs leave in PUBLISH order (G-ORDER), so an answer waits here for those before it.
#[derive(Debug, Default)]
pub(super) struct UplinkWindow {
    slots: VecDeque<Slot>,
    bytes: usize,
    unacknowledged: u16,
}

#[derive(Debug)]
struct Slot {
    /// `None` for QoS 0: it takes room, but nobody waits for an answer.
    packet_id: Option<PacketId>,
    bytes: usize,
    /// `None` while the stream has it.
    outcome: Option<Outcome>,
}

/// Whether a message is stored, or why not.
type Outcome = Result<(), Problem>;

impl UplinkWindow {
    pub(super) fn push(&mut self, packet_id: Option<PacketId>, bytes: usize) {
        self.bytes += bytes;
        self.unacknowledged += u16::from(packet_id.is_some());
        self.slots.push_back(Slot {
            packet_id,
            bytes,
            outcome: None,
        });
    }

    /// The last message never went to the stream.
    pub(super) fn settle_last(&mut self, outcome: Outcome) {
        if let Some(slot) = self.slots.back_mut() {
            slot.outcome = Some(outcome);
        }
    }

    /// The stream finished the oldest `count` messages it had.
    pub(super) fn settle_first(&mut self, count: u64, outcome: Outcome) {
        let mut waiting = self.slots.iter_mut().filter(|slot| slot.outcome.is_none());
        for _ in 0..count {
            match waiting.next() {
                Some(slot) => slot.outcome = Some(outcome),
                None => return,
            }
        }
    }

    /// Whether the device waits for an answer to the oldest message that the stream has.
    pub(super) fn owes_answer(&self) -> bool {
        let mut waiting = self.slots.iter().filter(|slot| slot.outcome.is_none());
        waiting.next().is_some_and(|slot| slot.packet_id.is_some())
    }

    /// Takes the next answer whose turn it is; QoS 0 gives none.
    pub(super) fn pop_settled(&mut self) -> Option<(PacketId, Outcome)> {
        while let Some(outcome) = self.slots.front().and_then(|slot| slot.outcome) {
            let slot = self.slots.pop_front()?;
            self.bytes -= slot.bytes;
            if let Some(packet_id) = slot.packet_id {
                self.unacknowledged -= 1;
                return Some((packet_id, outcome));
            }
        }
        if self.slots.is_empty() {
            self.slots = VecDeque::new(); // An idle device keeps no buffer.
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// QoS 1 messages that wait.
    pub(super) fn unacknowledged(&self) -> u16 {
        self.unacknowledged
    }
}

/// What one device was sent and has not acknowledged yet, and how far it has come: the cursor.
#[derive(Debug)]
pub(super) struct DownlinkWindow {
    inflight: VecDeque<(PacketId, u64)>,
    next: u16,
    limit: u16,
    delivered: u64,
}

impl DownlinkWindow {
    pub(super) fn new(limit: u16) -> Self {
        Self {
            inflight: VecDeque::new(),
            next: 1,
            limit,
            delivered: 0,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.inflight.len() < usize::from(self.limit)
    }

    pub(super) fn len(&self) -> usize {
        self.inflight.len()
    }

    /// A QoS 0 message went out.
    pub(super) fn sent(&mut self, stream_sequence: u64) {
        self.delivered = self.delivered.max(stream_sequence);
    }

    /// A QoS 1 message goes out: its packet identifier, one that is not in use.
    pub(super) fn send(&mut self, stream_sequence: u64) -> PacketId {
        loop {
            let candidate = PacketId::new(self.next);
            self.next = self.next.wrapping_add(1);
            let free = candidate.filter(|id| self.inflight.iter().all(|(used, _)| used != id));
            if let Some(packet_id) = free {
                self.inflight.push_back((packet_id, stream_sequence));
                self.sent(stream_sequence);
                return packet_id;
            }
        }
    }

    /// Whether the packet identifier was in use.
    pub(super) fn acknowledge(&mut self, packet_id: PacketId) -> bool {
        let before = self.inflight.len();
        self.inflight.retain(|(used, _)| *used != packet_id);
        let known = before != self.inflight.len();
        if self.inflight.is_empty() {
            self.inflight = VecDeque::new(); // An idle device keeps no buffer.
        }
        known
    }

    /// Every downlink up to this stream sequence is done with; a reconnect goes on behind it.
    pub(super) fn cursor(&self) -> u64 {
        self.inflight
            .iter()
            .map(|(_, sequence)| sequence.saturating_sub(1))
            .min()
            .unwrap_or(self.delivered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::ReasonCode;

    const DENIED: Problem = Problem {
        reason: ReasonCode::NotAuthorized,
        words: "no",
    };

    fn id(value: u16) -> PacketId {
        PacketId::new(value).unwrap()
    }

    #[test]
    fn an_answer_waits_for_those_before_it() {
        let mut window = UplinkWindow::default();
        window.push(Some(id(7)), 10);
        window.push(None, 5);
        window.push(Some(id(8)), 1);
        window.settle_last(Err(DENIED));
        assert_eq!(window.pop_settled(), None);
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), Some((id(7), Ok(()))));
        assert_eq!(window.pop_settled(), None);
        assert_eq!((window.bytes(), window.unacknowledged()), (6, 1));
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), Some((id(8), Err(DENIED))));
        assert!(window.is_empty());
        assert_eq!((window.bytes(), window.unacknowledged()), (0, 0));
    }

    #[test]
    fn packet_identifiers_wrap_past_zero_and_skip_those_in_use() {
        let mut window = DownlinkWindow::new(3);
        assert_eq!(window.send(1), id(1));
        for sequence in 2..=65_535 {
            let packet_id = window.send(sequence);
            assert!(window.acknowledge(packet_id));
        }
        assert_eq!(
            window.send(65_536),
            id(2),
            "0 is no identifier and 1 is in use"
        );
    }

    #[test]
    fn the_cursor_stops_before_the_oldest_unacknowledged_downlink() {
        let mut window = DownlinkWindow::new(3);
        let first = window.send(10);
        let second = window.send(20);
        assert_eq!(window.cursor(), 9);
        assert!(window.acknowledge(second));
        assert_eq!(window.cursor(), 9);
        assert!(window.acknowledge(first));
        assert!(!window.acknowledge(first));
        assert_eq!(window.cursor(), 20);
    }
}
