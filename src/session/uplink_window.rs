//! What one device published and has not been answered yet, in the order in which it came.
//!
//! PUBACKs and PUBRECs leave in PUBLISH order (G-ORDER), so an answer waits here for those before it. A message is first
//! taken, then handed to the stream, then settled; messages are handed over and settled in that order too. A message that is
//! released is one more, whose answer is PUBCOMP.

use std::collections::VecDeque;

use super::Problem;
use crate::mqtt::PacketId;

/// The uplink window of one session.
#[derive(Debug, Default)]
pub(super) struct UplinkWindow {
    slots: VecDeque<Slot>,
    bytes: usize,
    unacknowledged: u16,
}

#[derive(Debug)]
struct Slot {
    owed: Owed,
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

/// What the device waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    /// QoS 0: it takes room, but nobody waits for an answer.
    Nothing,
    Puback(PacketId),
    Pubrec(PacketId),
    Pubcomp(PacketId),
}

impl Owed {
    /// Whether it is the answer to a PUBLISH.
    fn is_to_publish(self) -> bool {
        matches!(self, Self::Puback(_) | Self::Pubrec(_))
    }
}

impl UplinkWindow {
    pub(super) fn push(&mut self, owed: Owed, bytes: usize) {
        self.bytes += bytes;
        self.unacknowledged += u16::from(owed.is_to_publish());
        self.slots.push_back(Slot {
            owed,
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

    /// A message to be released was not there.
    pub(super) fn settle_release(&mut self, packet_id: PacketId) {
        let owed = Owed::Pubcomp(packet_id);
        if let Some(slot) = self.published().find(|slot| slot.owed == owed) {
            slot.state = State::Settled(Ok(()));
        }
    }

    /// What the device waits for of the oldest message that the stream has.
    pub(super) fn owed_first(&mut self) -> Owed {
        let oldest = self.published().next();
        oldest.map_or(Owed::Nothing, |slot| slot.owed)
    }

    fn published(&mut self) -> impl Iterator<Item = &mut Slot> {
        let slots = self.slots.iter_mut();
        slots.filter(|slot| matches!(slot.state, State::Published))
    }

    /// Takes the next message whose turn to be answered it is.
    pub(super) fn pop_settled(&mut self) -> Option<(Owed, Result<(), Problem>)> {
        if let Some(State::Settled(outcome)) = self.slots.front().map(|slot| slot.state) {
            let slot = self.slots.pop_front()?;
            self.bytes -= slot.bytes;
            self.unacknowledged -= u16::from(slot.owed.is_to_publish());
            return Some((slot.owed, outcome));
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

    fn puback(packet_id: u16) -> Owed {
        PacketId::new(packet_id).map_or(Owed::Nothing, Owed::Puback)
    }

    fn answer(packet_id: u16, outcome: Result<(), Problem>) -> Option<(Owed, Result<(), Problem>)> {
        Some((puback(packet_id), outcome))
    }

    #[test]
    fn an_answer_waits_for_those_before_it() {
        let mut window = UplinkWindow::default();
        for (packet_id, bytes) in [(7, 10), (0, 5), (8, 1)] {
            window.push(puback(packet_id), bytes);
            window.publish();
        }
        window.settle_last(Err(DENIED));
        assert_eq!(window.pop_settled(), None);
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), answer(7, Ok(())));
        assert_eq!(window.pop_settled(), None);
        assert_eq!((window.bytes(), window.unacknowledged()), (6, 1));
        window.settle_first(1, Ok(()));
        assert_eq!(window.pop_settled(), answer(0, Ok(())));
        assert_eq!(window.pop_settled(), answer(8, Err(DENIED)));
        assert!(window.is_empty());
        assert_eq!((window.bytes(), window.unacknowledged()), (0, 0));
    }

    #[test]
    fn what_the_stream_does_not_have_yet_is_not_settled() {
        let mut window = UplinkWindow::default();
        for packet_id in 1..=3 {
            window.push(puback(packet_id), 1);
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
