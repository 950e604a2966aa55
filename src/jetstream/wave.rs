//! Messages one by one, each with its id and its own answer: what any stream takes, and what may be stored already.
//!
//! At most one message of a device is under way, so one that is refused, or lost at a change of the leader, has none of its device
//! behind it: nothing is reordered. The price is a round trip for each message of a device. With its id a message that is stored
//! already is answered with where; and on a replicated stream, unlike in a batch, not before its original is on a majority.

use std::collections::HashSet;

use super::Refusal;
use super::inbox::Inbox;
use super::puback::{self, Told};
use super::shard::{End, Shard};
use super::wire::{Dispatch, Heard, Once, Reply};

/// Most messages of one wave.
pub(super) const MESSAGES_MAX: usize = 500;

/// What became of a message of the wave; in this order they are put in front.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Stored,
    Refused(Refusal),
    Unknown,
}

impl Shard {
    /// Puts the first message of each device among the next `count` in front of the others; gives how many these are.
    pub(super) fn spread(&mut self, count: usize) -> usize {
        let mut devices = HashSet::with_capacity(count);
        let next = self.unfinished.drain(..count);
        let (first, behind): (Vec<_>, Vec<_>) =
            next.partition(|outgoing| devices.insert(outgoing.device));
        let found = first.len();
        for outgoing in first.into_iter().chain(behind).rev() {
            self.unfinished.push_front(outgoing);
        }
        found
    }

    /// Sends `count` messages, each of another device, and waits for all their answers.
    pub(super) async fn publish_wave(&mut self, inbox: &Inbox, count: usize) -> End {
        let start = inbox.start(self.batches);
        let dispatch = |number: usize| Dispatch {
            reply: Some(Reply {
                start: &start,
                number: number as u64,
                end: "",
            }),
            once: Once::Id,
            place: None,
        };
        if let Err(reason) = self.send(count, dispatch).await {
            return End::Again(reason);
        }
        let mut fates = vec![Fate::Unknown; count];
        let end = self.await_wave(inbox, &mut fates).await;
        self.settle_wave(fates).await;
        end
    }

    async fn await_wave(&mut self, inbox: &Inbox, fates: &mut [Fate]) -> End {
        let (mut answered, mut failed) = (0, None);
        let mut deadline = self.deadline();
        while answered < fates.len() {
            let told = match self.hear(deadline).await {
                Ok(Heard::Answer(answer)) => puback::read(inbox, self.batches, &answer),
                Ok(Heard::Denied(subject)) => {
                    answered += self.deny(&subject, fates);
                    None
                }
                Err(reason) => return End::Again(reason),
            };
            let Some((number, told)) = told else {
                continue;
            };
            let Some(fate) = fates.get_mut(number.wrapping_sub(1)) else {
                continue;
            };
            answered += 1;
            deadline = self.deadline();
            match told {
                Told::Stored(sequence) => {
                    self.stored_up_to(sequence);
                    *fate = Fate::Stored;
                }
                Told::Refused(refusal) => *fate = Fate::Refused(refusal),
                Told::NotNow(reason) => failed = Some(reason),
            }
        }
        failed.map_or(End::Done, End::Again)
    }

    /// Refuses those of a subject that we may not publish to, which have no other answer; gives how many.
    fn deny(&self, subject: &str, fates: &mut [Fate]) -> usize {
        let mut denied = 0;
        for (outgoing, fate) in self.unfinished.iter().zip(fates) {
            if *fate == Fate::Unknown && *outgoing.message.subject == *subject {
                *fate = Fate::Refused(Refusal::denied(subject));
                denied += 1;
            }
        }
        denied
    }

    /// Finishes those that are stored and brings the refused ones to the front, where they are finished next.
    async fn settle_wave(&mut self, fates: Vec<Fate>) {
        let wave = self.unfinished.drain(..fates.len());
        let mut wave: Vec<_> = wave.zip(fates).collect();
        // Each is of another device: their order among each other says nothing.
        wave.sort_by_key(|(_, fate)| match fate {
            Fate::Stored => 0,
            Fate::Refused(_) => 1,
            Fate::Unknown => 2,
        });
        let stored = wave.iter().take_while(|(_, fate)| *fate == Fate::Stored);
        let stored = stored.count();
        for (mut outgoing, fate) in wave.into_iter().rev() {
            if let Fate::Refused(refusal) = fate {
                outgoing.refusal = Some(refusal);
            }
            self.unfinished.push_front(outgoing);
        }
        let copies = self.finish_stored(stored, &mut 0);
        self.publish_live(copies, self.deadline()).await;
    }
}
