//! Which batches go without message ids: a look-up of an id costs the server as much as storing the message.
//!
//! The first message of such a batch is stored only if the last message of its subject is the one that is known: the last one of
//! the batch before, whose sequence came with the answer. What was not answered and is sent again begins with the same message
//! under the same guard, so at most one of the batches that carry it begins, however late one comes off a dead connection; and a
//! batch that did not begin stores nothing. `recovery` finds out which one began, and how much of it is stored.
//!
//! Invariants: all in a guarded batch was never sent before and is known to nobody else by its id, or is the same that the
//! guarded batch in doubt had; what is in doubt is in front of what is unfinished.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::publisher::Outgoing;
use super::shard::Shard;
use super::wire::Once;
use super::{MSG_ID, provision};
use crate::message::Subject;

/// Fewer messages than this cost less with ids than a guard does.
const GUARDED_FROM: usize = 16;
/// A batch of so many may leave some behind, up to `CUT_BACK`, so that the next one has a guard.
const CUT_FROM: usize = 64;
const CUT_BACK: usize = 32;
/// For how long it is believed that the stream keeps what it has, which an operator may change.
const BELIEVED: Duration = Duration::from_secs(10);
/// The header that says which quality of service a device asked for.
const QOS: &str = "Jw-Qos";

/// What a shard knows for guards.
#[derive(Debug, Default)]
pub(super) struct Guards {
    /// The last message of its subject, and its sequence in the stream.
    pub(super) last: Option<(Subject, u64)>,
    /// The subject of the last message of the batch that is open, if its sequence will say something.
    pub(super) closing: Option<Subject>,
    /// What was sent under a guard and is not answered.
    pub(super) doubt: Option<Doubt>,
    /// Whether the stream keeps what it has, and when that was asked.
    pub(super) kept: Option<(Instant, bool)>,
}

/// Messages in front of the unfinished ones that may be stored, by one batch.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The batches that they were sent in, all with the same first message.
    pub(super) batches: Vec<u64>,
    /// How many messages.
    pub(super) count: usize,
    /// How many messages in front of them the batch had stored, and are finished.
    pub(super) finished: usize,
    /// The sequence behind which they are stored.
    pub(super) after: u64,
}

impl Guards {
    /// A batch is about to be sent under a guard.
    pub(super) fn send(&mut self, batch: u64, count: usize, last: u64) {
        match &mut self.doubt {
            Some(doubt) => {
                doubt.batches.push(batch);
                doubt.count = doubt.count.max(count);
            }
            None => {
                self.doubt = Some(Doubt {
                    batches: vec![batch],
                    count,
                    finished: 0,
                    after: last,
                });
            }
        }
    }

    /// So many messages of the batch are stored: no other one has begun, nor will.
    pub(super) fn finish(&mut self, batch: u64, count: usize) {
        if let Some(doubt) = self.doubt.as_mut().filter(|_| count > 0) {
            doubt.batches = vec![batch];
            doubt.finished += count;
            doubt.count = doubt.count.saturating_sub(count);
        }
    }

    /// The batch has ended with what is finished. Says whether nothing is in doubt any more.
    pub(super) fn end(&mut self, batch: u64) -> bool {
        if let Some(doubt) = &mut self.doubt {
            doubt.batches.retain(|other| *other != batch);
        }
        self.doubt.take_if(|doubt| doubt.batches.is_empty());
        self.doubt.is_none()
    }
}

impl Shard {
    /// What of the next `count` messages goes as one batch: fewer, if the one behind them then begins with a guard.
    pub(super) async fn cut(&mut self, count: usize) -> usize {
        if count < CUT_FROM || !self.is_kept().await.unwrap_or(false) {
            return count;
        }
        let subject = |index: usize| Some(&self.unfinished.get(index)?.message.subject);
        let places = (count - CUT_BACK..=count).rev();
        let mut places = places.filter(|count| subject(*count).is_some());
        let same = places.find(|count| subject(*count - 1) == subject(*count));
        same.unwrap_or(count)
    }

    /// What keeps the first message of the next batch from being stored twice.
    pub(super) async fn first_once(&mut self, count: usize) -> Once {
        let guard = self.guard(count).await;
        let closing = self.unfinished.get(count.saturating_sub(1));
        let closing = closing.filter(|closing| guard.is_some() || is_new(closing));
        self.guards.closing = closing.map(|closing| closing.message.subject.clone());
        match guard {
            Some(sequence) => {
                self.guards.send(self.batches, count, sequence);
                self.metrics.guarded.inc();
                Once::Guard(sequence)
            }
            None => Once::Id,
        }
    }

    /// The sequence of the last message that the first one's subject has, if the batch may go without ids.
    async fn guard(&mut self, count: usize) -> Option<u64> {
        let (subject, sequence) = self.guards.last.take()?;
        if self.unfinished.front()?.message.subject != subject {
            return None;
        }
        let is_guarded = self.guards.doubt.is_some()
            || count >= GUARDED_FROM
                && self.unfinished.iter().take(count).all(is_new)
                && self.is_kept().await.unwrap_or(false);
        is_guarded.then_some(sequence)
    }

    /// Whether what is stored can be found in the stream afterwards.
    ///
    /// # Errors
    /// The stream was not there to be asked.
    pub(super) async fn is_kept(&mut self) -> Result<bool, String> {
        if let Some((asked, kept)) = self.guards.kept
            && asked.elapsed() < BELIEVED
        {
            return Ok(kept);
        }
        let kept = timeout(self.ack_timeout, provision::keeps(&self.link, &self.stream)).await;
        let kept = kept.map_err(|_elapsed| "the stream was not read in time".to_owned())?;
        let kept = kept.map_err(|error| error.to_string())?;
        self.guards.kept = Some((Instant::now(), kept));
        Ok(kept)
    }
}

/// Whether it was never sent, and is sent by a connection that has its device, which sends nothing under an id twice but QoS 2.
fn is_new(outgoing: &Outgoing) -> bool {
    let headers = &outgoing.message.headers;
    outgoing.sent_at.is_none()
        && outgoing.claimant().is_some()
        && headers.get(QOS).is_some_and(|qos| qos != "2")
        && headers.get(MSG_ID).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_of_the_batches_in_doubt_begins() {
        let mut guards = Guards::default();
        guards.send(1, 20, 7);
        guards.send(2, 10, 7);
        let doubt = guards.doubt.as_ref().unwrap();
        assert_eq!((&*doubt.batches, doubt.count), (&[1, 2][..], 20));
        assert!(
            !guards.end(2),
            "it stored nothing; the other one may begin yet"
        );
        guards.send(3, 20, 7);
        guards.finish(3, 0);
        assert_eq!(guards.doubt.as_ref().unwrap().batches, [1, 3]);
        guards.finish(3, 5);
        let doubt = guards.doubt.as_ref().unwrap();
        assert_eq!(
            (&*doubt.batches, doubt.count, doubt.finished),
            (&[3][..], 15, 5)
        );
        assert!(guards.end(3));
        assert!(guards.doubt.is_none());
    }
}
