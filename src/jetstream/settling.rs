//! Finishing messages: what the answers to an open batch say about each of them.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};

use super::Refusal;
use super::batch::{self, Answer};
use super::inbox::Inbox;
use super::publisher::Outgoing;
use super::shard::{End, Shard};
use super::wire::{Dispatch, Heard, Once, Reply};
use crate::message::{Message, Subject};

impl Shard {
    /// Sends `count` messages as one fast batch and waits until it has ended.
    pub(super) async fn publish_fast(&mut self, inbox: &Inbox, count: usize) -> End {
        let first = self.first_once(count).await;
        let start = batch::start(inbox, self.batches);
        let dispatch = |number: usize| Dispatch {
            reply: Some(Reply {
                start: &start,
                number: number as u64,
                end: batch::end(number, count),
            }),
            once: first.of(number),
            place: None,
        };
        match self.send(count, dispatch).await {
            Ok(()) => self.await_commit(inbox, count, first).await,
            Err(reason) => End::Again(reason),
        }
    }

    /// Finishes messages as answers say so, until the batch has ended.
    async fn await_commit(&mut self, inbox: &Inbox, count: usize, first: Once) -> End {
        let (mut finished, mut is_denied) = (0, false);
        let mut deadline = self.deadline();
        loop {
            let answer = match self.hear(deadline).await {
                Ok(Heard::Answer(answer)) => batch::read(inbox, self.batches, &answer),
                Ok(Heard::Denied(subject)) if self.refuse_denied(&subject, count - finished) => {
                    if self.is_front_refused() && finished == 0 {
                        // A batch without its first message has not begun, and has no answer.
                        return self.nothing_stored(count);
                    }
                    is_denied = true;
                    self.ask_to_close(inbox);
                    continue;
                }
                Ok(Heard::Denied(_)) => continue,
                Err(reason) => return End::Again(reason),
            };
            match answer {
                None => {}
                // Sent before the refusal, too, of one that is alone.
                Some(Answer::Stored(_)) if count == 1 => {}
                Some(Answer::Stored(stored)) => {
                    let copies = self.finish_stored(stored.min(count), &mut finished);
                    deadline = self.deadline();
                    self.publish_live(copies, deadline).await;
                }
                Some(Answer::Committed { stored, sequence }) => {
                    return self.committed(stored, sequence, count, finished).await;
                }
                Some(Answer::Refused { number, refusal }) => {
                    let is_guarded = first != Once::Id;
                    if let Some(end) = self.refused(number, refusal, count, finished, is_guarded) {
                        return end;
                    }
                }
                // What is missing is the denied message; what is stored before it is about to be said.
                Some(Answer::Gap(_) | Answer::Unknown(_)) if is_denied => {}
                Some(Answer::Unknown(_)) => return End::Again("unknown batch".to_owned()),
                Some(Answer::Gap(reason) | Answer::Broken(reason)) => return End::Again(reason),
            }
        }
    }

    /// The batch is over, with so many of its messages.
    async fn committed(
        &mut self,
        stored: usize,
        sequence: u64,
        count: usize,
        mut finished: usize,
    ) -> End {
        match stored == count && sequence > 0 {
            true => self.closed_at(sequence),
            false => self.stored_up_to(sequence),
        }
        let copies = self.finish_stored(stored.min(count), &mut finished);
        self.publish_live(copies, self.deadline()).await;
        if self.guards.end(self.batches) {
            self.not_stored(count - finished);
        }
        match stored >= count || self.is_front_refused() {
            true => End::Done,
            false => End::Again(format!("{stored} of {count} stored")),
        }
    }

    /// A message is refused; gives how the batch ended, if it has nothing more to say.
    fn refused(
        &mut self,
        number: usize,
        refusal: Refusal,
        count: usize,
        finished: usize,
        is_guarded: bool,
    ) -> Option<End> {
        // It may be the guard that is refused: the batch is sent again without it.
        if number == 1 && is_guarded && matches!(refusal, Refusal::Refused(_)) {
            return Some(self.nothing_stored(count));
        }
        let index = number.wrapping_sub(1).wrapping_sub(finished);
        if let Some(outgoing) = self.unfinished.get_mut(index) {
            outgoing.refusal = Some(refusal);
        }
        // A batch that ends before its first unfinished message has nothing more to say.
        if index == 0 && self.guards.end(self.batches) {
            self.not_stored(count - finished);
        }
        (index == 0 || number == count).then_some(End::Done)
    }

    /// The batch did not begin, nor will.
    pub(super) fn nothing_stored(&mut self, count: usize) -> End {
        if self.guards.end(self.batches) {
            self.not_stored(count);
        }
        End::Done
    }

    /// Refuses those of the next `count` messages that have a subject to which we may not publish; gives whether there are any.
    pub(super) fn refuse_denied(&mut self, subject: &str, count: usize) -> bool {
        let batch = self.unfinished.iter_mut().take(count);
        let denied = batch.filter(|outgoing| *outgoing.message.subject == *subject);
        let refused = denied.map(|outgoing| outgoing.refusal = Some(Refusal::denied(subject)));
        refused.count() > 0
    }

    /// Asks what of the open batch is stored: its last message may be one that did not come.
    fn ask_to_close(&mut self, inbox: &Inbox) {
        let (number, end) = batch::close();
        let reply = Reply {
            start: &batch::start(inbox, self.batches),
            number: number as u64,
            end,
        };
        if let (Some(wire), Some(front)) = (&mut self.wire, self.unfinished.front()) {
            // It leaves while the answer is waited for.
            wire.ask(&front.message.subject, reply);
        }
    }

    /// The stream has a message with this sequence.
    pub(super) fn stored_up_to(&self, sequence: u64) {
        self.stored_sequence.fetch_max(sequence, Ordering::Release);
    }

    /// The same of the last message of the batch.
    pub(super) fn closed_at(&mut self, sequence: u64) {
        self.stored_up_to(sequence);
        let closing = self.guards.closing.take();
        self.guards.last = closing.map(|subject| (subject, sequence));
    }

    /// Until when an answer is waited for.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.ack_timeout
    }

    /// What the server says next.
    ///
    /// # Errors
    /// Nothing in time, or the connection was lost.
    pub(super) async fn hear(&mut self, deadline: Instant) -> Result<Heard, String> {
        let wire = self.wire.as_mut().ok_or("no connection")?;
        let Ok(heard) = timeout_at(deadline, wire.next()).await else {
            self.stall();
            return Err("no answer in time".to_owned());
        };
        heard.map_err(|error| format!("the connection was lost: {error}"))
    }

    /// Finishes the batch's messages up to `stored`, and gives those that are to be copied; `finished` counts those that
    /// already are.
    pub(super) fn finish_stored(
        &mut self,
        stored: usize,
        finished: &mut usize,
    ) -> Vec<(Subject, Message)> {
        let before = *finished;
        let mut copies = Vec::new();
        let mut freed_bytes = 0;
        while *finished < stored {
            let Some(outgoing) = self.unfinished.pop_front() else {
                break;
            };
            *finished += 1;
            self.metrics.stored.inc();
            self.metrics
                .stored_bytes
                .inc_by(outgoing.message.payload.len() as u64);
            outgoing.finish(None);
            freed_bytes += outgoing.bytes as usize;
            if let Some(live) = outgoing.live {
                copies.push((live, outgoing.message));
            }
        }
        // At once: giving back takes the pool's lock.
        self.pool.add_permits(freed_bytes);
        self.guards.finish(self.batches, *finished - before);
        copies
    }

    /// Takes the rest of a batch out of doubt: it ended before so many messages in front of what is unfinished.
    pub(super) fn not_stored(&mut self, count: usize) {
        for outgoing in self.unfinished.iter_mut().take(count) {
            outgoing.sent_at = None;
        }
    }

    /// The copies for whoever listens now; at most once, so what the server does not take in time shows in the count only.
    pub(super) async fn publish_live(
        &mut self,
        copies: Vec<(Subject, Message)>,
        deadline: Instant,
    ) {
        let Some(wire) = self.wire.as_mut().filter(|_| !copies.is_empty()) else {
            return;
        };
        // No stream takes them, so no id is looked up.
        let copied = Dispatch {
            once: Once::Batch,
            ..Dispatch::default()
        };
        for (subject, message) in &copies {
            wire.publish(subject, message, &copied);
        }
        // What is wrong shows with the next batch.
        if let Ok(Ok(())) = timeout_at(deadline, wire.flush()).await {
            self.metrics.live.inc_by(copies.len() as u64);
        }
    }

    /// Finishes refused messages that have come to the front; one line tells of all, or an outage would write thousands.
    pub(super) fn finish_refused(&mut self) {
        let mut first = None;
        let mut count: u64 = 0;
        while let Some(outgoing) = self.unfinished.pop_front_if(|next| next.refusal.is_some()) {
            outgoing.finish(outgoing.refusal.clone());
            self.pool.add_permits(outgoing.bytes as usize);
            count += 1;
            first.get_or_insert(outgoing);
        }
        if let Some(Outgoing {
            message,
            refusal: Some(refusal),
            ..
        }) = first
        {
            self.metrics.refused.inc_by(count);
            tracing::warn!(stream = &*self.stream, subject = %message.subject, %refusal, count, "messages refused");
        }
    }

    /// Refuses messages whose fate has been unknown for the whole retry budget.
    pub(super) fn give_up_unanswered(&mut self) {
        let budget = self.retry_budget;
        for outgoing in &mut self.unfinished {
            if outgoing.sent_at.is_some_and(|sent| sent.elapsed() > budget) {
                outgoing.refusal = Some(Refusal::Unanswered);
            }
        }
        if self.is_front_refused() {
            self.abandon();
        }
        self.finish_refused();
    }

    pub(super) fn is_front_refused(&self) -> bool {
        let front = self.unfinished.front();
        front.is_some_and(|front| front.refusal.is_some())
    }
}
