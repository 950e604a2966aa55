//! Finishing messages: what the answers to an open batch say about each of them.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};

use super::Refusal;
use super::batch::{Answer, Inbox};
use super::publisher::Outgoing;
use super::shard::{End, Shard};
use super::wire::Once;
use crate::message::{Message, Subject};

impl Shard {
    /// Finishes messages as answers say so, until the batch has ended.
    pub(super) async fn await_commit(&mut self, inbox: &Inbox, count: usize, first: Once) -> End {
        let (mut finished, is_guarded) = (0, first != Once::Id);
        let mut deadline = Instant::now() + self.ack_timeout;
        loop {
            let answer = match self.next_answer(inbox, deadline).await {
                Ok(answer) => answer,
                Err(reason) => return End::Again(reason),
            };
            match answer {
                None => {}
                // Sent before the refusal, too, of one that may be stored already and is with the leader alone.
                Some(Answer::Stored(_)) if count == 1 => {}
                Some(Answer::Stored(stored)) => {
                    let copies = self.finish_stored(stored.min(count), &mut finished);
                    deadline = Instant::now() + self.ack_timeout;
                    self.publish_live(copies, deadline).await;
                }
                Some(Answer::Committed { stored, sequence }) => {
                    self.stored_sequence.fetch_max(sequence, Ordering::Release);
                    if stored == count && sequence > 0 {
                        let closing = self.guards.closing.take();
                        self.guards.last = closing.map(|subject| (subject, sequence));
                    }
                    let copies = self.finish_stored(stored.min(count), &mut finished);
                    self.publish_live(copies, Instant::now() + self.ack_timeout)
                        .await;
                    // One that was sent alone may still be in doubt from before.
                    if self.guards.end(self.batches) && (count > 1 || is_guarded) {
                        self.not_stored(count - finished);
                    }
                    return match stored >= count || self.is_front_refused() {
                        true => End::Done,
                        false => End::Again(format!("{stored} of {count} stored")),
                    };
                }
                // It may be the guard that is refused: the batch is sent again without it.
                Some(Answer::Refused {
                    number: 1,
                    refusal: Refusal::Refused(_),
                }) if is_guarded => {
                    if self.guards.end(self.batches) {
                        self.not_stored(count);
                    }
                    return End::Done;
                }
                Some(Answer::Refused { number, refusal }) => {
                    let index = number.wrapping_sub(1).wrapping_sub(finished);
                    if let Some(outgoing) = self.unfinished.get_mut(index) {
                        outgoing.refusal = Some(refusal);
                    }
                    // A batch that ends before its first unfinished message has nothing more to say.
                    if index == 0 && self.guards.end(self.batches) {
                        self.not_stored(count - finished);
                    }
                    if index == 0 || number == count {
                        return End::Done;
                    }
                }
                Some(Answer::Unknown(_)) => return End::Again("unknown batch".to_owned()),
                Some(Answer::Gap(reason) | Answer::Broken(reason)) => return End::Again(reason),
            }
        }
    }

    /// The next answer to the open batch; none if it is to another one.
    async fn next_answer(
        &mut self,
        inbox: &Inbox,
        deadline: Instant,
    ) -> Result<Option<Answer>, String> {
        let wire = self.wire.as_mut().ok_or("no connection")?;
        let Ok(answer) = timeout_at(deadline, wire.next()).await else {
            self.stall();
            return Err("no answer in time".to_owned());
        };
        let answer = answer.map_err(|error| format!("the connection was lost: {error}"))?;
        let (subject, payload) = (&answer.subject, &answer.payload);
        Ok(inbox.read(self.batches, subject, answer.no_responders, payload))
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
        for (subject, message) in &copies {
            // No stream takes them, so no id is looked up.
            wire.publish(subject, message, None, Once::Batch);
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
