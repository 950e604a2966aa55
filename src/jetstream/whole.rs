//! Atomic batches of a shard (nats-server ≥ 2.12, `allow_atomic`): the server stores all of one, with one sync, or nothing of it.
//!
//! Only its last message is answered. What is refused in it is not named, and one message id that the stream knows refuses all
//! of it; then its messages go one by one, each with its id, and so do those that may be stored already (`wave`).

use super::inbox::Inbox;
use super::puback::{self, Told};
use super::shard::{End, Shard};
use super::wire::{Dispatch, Heard, Place, Reply};

impl Shard {
    /// Sends `count` messages as one atomic batch and waits until it is stored, or is known not to be.
    pub(super) async fn publish_whole(&mut self, inbox: &Inbox, count: usize) -> End {
        let first = self.first_once(count).await;
        let (name, start) = (inbox.name(self.batches), inbox.start(self.batches));
        let dispatch = |number: usize| {
            let is_last = number == count;
            Dispatch {
                reply: is_last.then_some(Reply {
                    start: &start,
                    number: number as u64,
                    end: "",
                }),
                once: first.of(number),
                place: Some(Place {
                    batch: &name,
                    number: number as u64,
                    is_last,
                }),
            }
        };
        if let Err(reason) = self.send(count, dispatch).await {
            return End::Again(reason);
        }
        self.await_whole(inbox, count).await
    }

    async fn await_whole(&mut self, inbox: &Inbox, count: usize) -> End {
        let deadline = self.deadline();
        loop {
            let told = match self.hear(deadline).await {
                Ok(Heard::Answer(answer)) => puback::read(inbox, self.batches, &answer),
                Ok(Heard::Denied(subject)) if self.refuse_denied(&subject, count) => {
                    // One that is missing leaves the batch incomplete.
                    return self.nothing_stored(count);
                }
                Ok(Heard::Denied(_)) => continue,
                Err(reason) => return End::Again(reason),
            };
            let Some((_, told)) = told else {
                continue;
            };
            return match told {
                Told::Stored(sequence) => {
                    self.closed_at(sequence);
                    let copies = self.finish_stored(count, &mut 0);
                    self.publish_live(copies, self.deadline()).await;
                    self.guards.end(self.batches);
                    End::Done
                }
                // They still count as sent, and so go one by one.
                Told::Refused(refusal) => match self.guards.end(self.batches) {
                    true => End::Done,
                    // Another batch with them is in doubt.
                    false => End::Again(refusal.to_string()),
                },
                Told::NotNow(reason) => End::Again(reason),
            };
        }
    }
}
