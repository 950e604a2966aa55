//! What became of a guarded batch that was not answered: it is closed, and what it stored is counted.
//!
//! 1. Each batch in doubt is closed, on the new connection. If it is open the answer says how much of it is stored. If the server
//!    does not know it, it has ended, or has not begun and may begin yet.
//! 2. Then the stream is read: whether the first message is there, and with the same answer what the last one of its subject is.
//! 3. If it is not there, the batch may still begin; the same messages are sent again under that last one as their guard, which then
//!    fails, or makes the batch's own fail.
//! 4. If it is there, the batch has begun, perhaps since it was to be closed: it is closed again. Then it has ended, and the rest is
//!    not stored, nor will be. What is stored of it is a prefix, so the last stored message is found by bisection; all is looked for
//!    behind the sequence that was the guard, whatever others have stored since.

use std::collections::HashMap;

use serde_json::json;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use super::batch::{self, Answer};
use super::direct::Direct;
use super::guard::Doubt;
use super::inbox::Inbox;
use super::protocol::Protocol;
use super::receipts::Refusal;
use super::shard::Shard;
use super::wire::{Heard, Reply};
use super::{ReadError, Stored};

const ID: &str = "Jw-Id";
/// Reading back may take so many times as long as an answer: it takes some requests.
const READ_TIMEOUTS: u32 = 5;

impl Shard {
    /// Finishes what a guarded batch in doubt has stored. What is in doubt still after that is to be sent again, under the guard
    /// that is known now.
    ///
    /// # Errors
    /// NATS did not say what is needed.
    pub(super) async fn recover(&mut self, inbox: &Inbox) -> Result<(), String> {
        let Some(doubt) = &self.guards.doubt else {
            return Ok(());
        };
        if doubt.count == 0 {
            // Only its end was not answered.
            self.guards.doubt = None;
            return Ok(());
        }
        let finished = doubt.finished;
        self.guards.kept = None;
        if !self.is_kept().await? {
            // Someone has changed the stream since.
            self.abandon();
            return Ok(());
        }
        let mut stored = self.close_all(inbox).await?;
        if stored == 0 && self.has_begun().await? {
            stored = self.close_all(inbox).await?;
            if stored == 0 {
                let read = timeout(READ_TIMEOUTS * self.ack_timeout, self.read_back()).await;
                stored = in_time(read)?;
            }
        }
        let Some(count) = self.guards.doubt.as_ref().map(|doubt| doubt.count) else {
            self.not_stored(self.unfinished.len());
            return Ok(());
        };
        if stored > 0 || finished > 0 {
            self.guards.doubt = None;
            let copies = self.finish_stored(stored.min(count), &mut 0);
            self.publish_live(copies, Instant::now() + self.ack_timeout)
                .await;
            self.not_stored(count.saturating_sub(stored));
        }
        Ok(())
    }

    /// Ends all batches in doubt; gives how many more of their messages are stored, as far as the server knows them.
    async fn close_all(&mut self, inbox: &Inbox) -> Result<usize, String> {
        let mut stored = 0;
        // Of an atomic batch all is stored, or nothing: there is nothing to close.
        let open = (self.guards.doubt.as_ref()).filter(|_| self.protocol == Protocol::Fast);
        let Some((batches, finished)) = open.map(|open| (open.batches.clone(), open.finished))
        else {
            return Ok(0);
        };
        for batch in batches {
            if let Some(all) = self.close(inbox, batch).await? {
                stored = stored.max(all.saturating_sub(finished));
                if all == 0 {
                    self.guards.end(batch);
                }
            }
        }
        Ok(stored)
    }

    /// Whether the first message in doubt is stored. If it is not, the last message of its subject, by the same answer, is the guard
    /// from then on: what is stored between two answers would be stored twice.
    async fn has_begun(&mut self) -> Result<bool, String> {
        let direct = Direct::new(&self.link, &self.stream);
        let Some((doubt, front)) = self.guards.doubt.as_ref().zip(self.unfinished.front()) else {
            return Ok(false);
        };
        let subject = front.message.subject.clone();
        let ids = self.ids(doubt.count);
        let looked = stored_up_to(&direct, &ids, &subject, doubt.after);
        let found = in_time(timeout(READ_TIMEOUTS * self.ack_timeout, looked).await)?;
        if found.index.is_none() {
            self.guards.last = Some((subject, found.newest));
        }
        Ok(found.index.is_some())
    }

    /// The places of the messages in doubt, by their ids.
    fn ids(&self, count: usize) -> HashMap<&str, usize> {
        let in_doubt = self.unfinished.iter().take(count).enumerate();
        in_doubt
            .filter_map(|(index, outgoing)| Some((outgoing.message.headers.get(ID)?, index)))
            .collect()
    }

    /// Ends a batch; gives how many of its messages are stored, or none if the server knows no such batch.
    async fn close(&mut self, inbox: &Inbox, batch: u64) -> Result<Option<usize>, String> {
        let deadline = Instant::now() + self.ack_timeout;
        let subject = self
            .unfinished
            .front()
            .map(|front| front.message.subject.clone());
        let (Some(wire), Some(subject)) = (&mut self.wire, subject) else {
            return Err("no connection".to_owned());
        };
        let (number, end) = batch::close();
        let reply = Reply {
            start: &batch::start(inbox, batch),
            number: number as u64,
            end,
        };
        wire.ask(&subject, reply);
        let answered = timeout_at(deadline, async {
            wire.flush().await.map_err(|error| error.to_string())?;
            loop {
                let heard = wire.next().await.map_err(|error| error.to_string())?;
                let Heard::Answer(answer) = heard else {
                    return Err("publishing is denied".to_owned());
                };
                match batch::read(inbox, batch, &answer) {
                    Some(Answer::Committed { stored, .. }) => return Ok(Some(stored)),
                    Some(Answer::Unknown(asked)) if asked == number => return Ok(None),
                    Some(Answer::Broken(reason)) => return Err(reason),
                    Some(Answer::Refused { refusal, .. }) => return Err(refusal.to_string()),
                    // Of the batch itself, still on their way.
                    None | Some(Answer::Stored(_) | Answer::Gap(_) | Answer::Unknown(_)) => {}
                }
            }
        });
        let closed = answered.await;
        closed.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned()))
    }

    /// How many of the messages in doubt the stream has. Their batch has begun and ended.
    async fn read_back(&mut self) -> Result<usize, ReadError> {
        let direct = Direct::new(&self.link, &self.stream);
        let Some(Doubt { count, after, .. }) = self.guards.doubt else {
            return Ok(0);
        };
        let ids = self.ids(count);
        let (mut stored, mut unstored) = (0, count);
        while stored < unstored {
            let index = stored + (unstored - stored) / 2;
            let Some(asked) = self.unfinished.get(index) else {
                break;
            };
            let found = stored_up_to(&direct, &ids, &asked.message.subject, after).await?;
            match found.index {
                Some(last) if last >= index => stored = last + 1,
                _ => unstored = index,
            }
        }
        Ok(stored)
    }

    /// Refuses what is in doubt: no answer will tell what became of it.
    pub(super) fn abandon(&mut self) {
        let Some(doubt) = self.guards.doubt.take() else {
            return;
        };
        for outgoing in self.unfinished.iter_mut().take(doubt.count) {
            outgoing.refusal.get_or_insert(Refusal::Unanswered);
        }
    }
}

/// What the stream has of a subject.
struct Found {
    /// The last one of the messages in doubt.
    index: Option<usize>,
    /// The sequence of the last message of all; 0 if there is none.
    newest: u64,
}

/// What came of reading, unless it took too long.
fn in_time<T>(read: Result<Result<T, ReadError>, Elapsed>) -> Result<T, String> {
    let read = read.map_err(|_elapsed| "the stream was not read in time".to_owned())?;
    read.map_err(|error| error.to_string())
}

/// The last of the messages with these ids that is stored under a subject, behind a sequence.
async fn stored_up_to(
    direct: &Direct,
    ids: &HashMap<&str, usize>,
    subject: &str,
    after: u64,
) -> Result<Found, ReadError> {
    let of = |stored: &Stored| ids.get(stored.message.headers.get(ID)?).copied();
    let query = json!({ "last_by_subj": subject });
    let Some(last) = direct.leader_get(&query).await? else {
        return Ok(Found {
            index: None,
            newest: 0,
        });
    };
    let newest = last.sequence;
    if let Some(index) = of(&last) {
        let index = Some(index);
        return Ok(Found { index, newest });
    }
    // Others may have stored behind it since.
    let (mut index, mut sequence) = (None, after);
    while sequence < newest {
        let query = json!({ "seq": sequence + 1, "next_by_subj": subject });
        let Some(stored) = direct.leader_get(&query).await? else {
            break;
        };
        sequence = stored.sequence;
        index = of(&stored).or(index);
    }
    Ok(Found { index, newest })
}
