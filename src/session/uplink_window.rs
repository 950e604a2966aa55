//! What one device published and has not been answered yet, in the order in which it came.
//!
//! PUBACKs and PUBRECs leave in PUBLISH order (G-ORDER), so an answer waits here for those before it. A message is first
//! taken, then handed to the stream, then settled; messages are handed over and settled in that order too.

use std::collections::VecDeque;

use super::Problem;
use crate::mqtt::{PacketId, QoS};

/// The uplink window of one session.
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
    qos: QoS,
    bytes: usize,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// It waits until the session is saved.
    Taken,
    /// The stream has it.
    Published,
    /// Whether it is stored, or why not.
    Settled(Result<(), Problem>),
}

/// An answer whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) packet_id: PacketId,
    pub(super) qos: QoS,
    pub(super) outcome: Result<(), Problem>,
}

impl UplinkWindow {
    pub(super) fn push(&mut self, packet_id: Option<PacketId>, qos: QoS, bytes: usize) {
        self.bytes += bytes;
        self.unacknowledged += u16::from(packet_id.is_some());
        self.slots.push_back(Slot {
            packet_id,
            qos,
            bytes,
            state: State::Taken,
        });
    }

    /// The oldest message that was not handed to the stream is handed over now.
    pub(super) fn publish(&mut self) {
        let mut taken = self.slots.iter_mut().rev();
        let mut oldest = None;
        while let Some(slot) = taken
            .next()
            .filter(|slot| matches!(slot.state, State::Taken))
        {
            oldest = Some(slot);
        }
        if let Some(slot) = oldest {
            slot.state = State::Published;
        }
    }

    /// The message that was handed over last never went to the stream.
    pub(super) fn settle_last(&mut self, outcome: Result<(), Problem>) {
        let mut published = self.slots.iter_mut().rev();
        if let Some(slot) = published.find(|slot| !matches!(slot.state, State::Taken)) {
            slot.state = State::Settled(outcome);
        }
    }

    /// The stream finished the oldest `count` messages it had.
    pub(super) fn settle_first(&mut self, count: u64, outcome: Result<(), Problem>) {
        let mut waiting = self.published();
        for _ in 0..count {
            match waiting.next() {
                Some(slot) => slot.state = State::Settled(outcome),
                None => return,
            }
        }
    }

    /// Whether the device waits for an answer to the oldest message that the stream has.
    pub(super) fn owes_answer(&mut self) -> bool {
        let oldest = self.published().next();
        oldest.is_some_and(|slot| slot.packet_id.is_some())
    }

    fn published(&mut self) -> impl Iterator<Item = &mut Slot> {
        let slots = self.slots.iter_mut();
        slots.filter(|slot| matches!(slot.state, State::Published))
    }

    /// Takes the next answer whose turn it is; QoS 0 gives none.
    pub(super) fn pop_settled(&mut self) -> Option<Answer> {
        while let Some(State::Settled(outcome)) = self.slots.front().map(|slot| slot.state) {
            let slot = self.slots.pop_front()?;
            self.bytes -= slot.bytes;
            if let Some(packet_id) = slot.packet_id {
                self.unacknowledged -= 1;
                return Some(Answer {
                    packet_id,
                    qos: slot.qos,
                    outcome,
                });
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

    /// QoS 1 and 2 messages that wait for their PUBACK or PUBREC.
    pub(super) fn unacknowledged(&self) -> u16 {
        self.unacknowledged
    }

    /// Messages that were not handed to the stream yet.
    pub(super) fn taken(&self) -> usize {
        let newest = self.slots.iter().rev();
        newest
            .take_while(|slot| matches!(slot.state, State::Taken))
            .count()
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

    fn answer(packet_id: u16, outcome: Result<(), Problem>) -> Option<Answer> {
        Some(Answer {
            packet_id: PacketId::new(packet_id).unwrap(),
            qos: QoS::AtLeastOnce,
            outcome,
        })
    }

    #[test]
    fn an_answer_waits_for_those_before_it() {
        let mut window = UplinkWindow::default();
        for (packet_id, bytes) in [(7, 10), (0, 5), (8, 1)] {
            window.push(PacketId::new(packet_id), QoS::AtLeastOnce, bytes);
            window.publish();
        }
        window.settle_last(Err(DENIED));
        assert_eq!(window.pop_settled(), None);
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), answer(7, Ok(())));
        assert_eq!(window.pop_settled(), None);
        assert_eq!((window.bytes(), window.unacknowledged()), (6, 1));
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), answer(8, Err(DENIED)));
        assert!(window.is_empty());
        assert_eq!((window.bytes(), window.unacknowledged()), (0, 0));
    }

    #[test]
    fn what_the_stream_does_not_have_yet_is_not_settled() {
        let mut window = UplinkWindow::default();
        for packet_id in 1..=3 {
            window.push(PacketId::new(packet_id), QoS::AtLeastOnce, 1);
        }
        window.publish();
        assert_eq!(window.taken(), 2);
        window.settle_first(3, Ok(()));
        assert_eq!(window.pop_settled(), answer(1, Ok(())));
        assert_eq!(window.pop_settled(), None);
        window.publish();
        window.settle_last(Err(DENIED));
        assert_eq!(window.pop_settled(), answer(2, Err(DENIED)));
        assert_eq!((window.taken(), window.pop_settled()), (1, None));
    }
}
