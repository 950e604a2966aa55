//! One stream in memory with its durables, as a state machine. Pure: the time is an argument.
//!
//! Invariants: what a durable has before `next` is done or in its `pending`; a message stays until all durables are done with it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::time::Instant;
use uuid::Uuid;

use crate::broker::{DeadLetter, Durable, Fault, Posting, Stream, USED_UP};
use crate::delivery::{Answer, Delivered, Redelivery};
use crate::message::Message;

/// A stream.
pub(super) struct Log {
    pub(super) stream: Stream,
    messages_max: usize,
    /// The sequence of the first message that is there, or of the next one.
    first: u64,
    messages: VecDeque<Stored>,
    ids: HashMap<Uuid, Instant>,
    ids_by_age: VecDeque<Uuid>,
    durables: HashMap<Box<str>, Progress>,
}

struct Stored {
    message: Message,
    at_ms: u64,
}

/// How far a durable is.
struct Progress {
    durable: Durable,
    /// What it was not given yet begins here.
    next: u64,
    pending: BTreeMap<u64, Pending>,
    dead: VecDeque<DeadLetter>,
}

struct Pending {
    attempt: u64,
    /// From when on someone else may have it.
    due: Instant,
}

/// What there is for a puller.
pub(super) enum Take {
    Message(Delivered),
    /// Nothing before this time, unless something is stored or answered.
    Nothing(Option<Instant>),
    Gone,
}

impl Log {
    pub(super) fn new(stream: Stream, messages_max: usize) -> Self {
        Self {
            stream,
            messages_max: messages_max.max(1),
            first: 1,
            messages: VecDeque::new(),
            ids: HashMap::new(),
            ids_by_age: VecDeque::new(),
            durables: HashMap::new(),
        }
    }

    /// Adds a durable, if it is not there.
    pub(super) fn add(&mut self, durable: &Durable) {
        let next = match durable.only_new {
            true => self.end(),
            false => self.first,
        };
        let progress = || Progress {
            durable: durable.clone(),
            next,
            pending: BTreeMap::new(),
            dead: VecDeque::new(),
        };
        self.durables
            .entry(durable.name.clone())
            .or_insert_with(progress);
    }

    pub(super) fn redelivery(&self, durable: &str) -> Option<Redelivery> {
        let progress = self.durables.get(durable)?;
        Some(progress.durable.redelivery.clone())
    }

    pub(super) fn dead_letters(&self, durable: &str) -> Vec<DeadLetter> {
        let dead = self.durables.get(durable).map(|progress| &progress.dead);
        dead.into_iter().flatten().cloned().collect()
    }

    /// Stores a message, unless it is known by its id.
    pub(super) fn store(
        &mut self,
        posting: &Posting,
        now: Instant,
        now_ms: u64,
    ) -> Result<(), Fault> {
        self.forget(now);
        if self.ids.contains_key(&posting.id) {
            return Ok(());
        }
        if self.messages.len() >= self.messages_max {
            let needed = self.durables.values().map(Progress::floor).min();
            if needed.is_some_and(|needed| needed <= self.first) {
                return Err(Fault::Away(format!("stream {} is full", self.stream.name)));
            }
            self.messages.pop_front();
            self.first += 1;
        }
        self.messages.push_back(Stored {
            message: posting.message.clone(),
            at_ms: now_ms,
        });
        self.ids
            .insert(posting.id, now + self.stream.duplicate_window);
        self.ids_by_age.push_back(posting.id);
        Ok(())
    }

    /// What a durable has for a puller.
    pub(super) fn take(&mut self, durable: &str, now: Instant) -> Take {
        let (first, end) = (self.first, self.end());
        let Some(progress) = self.durables.get_mut(durable) else {
            return Take::Gone;
        };
        let at = |sequence: u64| {
            let index = usize::try_from(sequence.checked_sub(first)?).ok()?;
            self.messages.get(index)
        };
        while let Some((sequence, attempt)) = progress.due(now) {
            let Some(stored) = at(sequence) else {
                progress.pending.remove(&sequence);
                continue;
            };
            let last = progress.durable.redelivery.deliveries_max;
            if last.is_some_and(|last| attempt >= last) {
                progress.give_up(sequence, stored, USED_UP.to_owned(), self.messages_max);
            } else {
                return Take::Message(progress.lease(sequence, stored, attempt + 1, now));
            }
        }
        while progress.next < end {
            let sequence = progress.next;
            progress.next += 1;
            if let Some(stored) = at(sequence)
                && progress.durable.selects(&stored.message.subject)
            {
                return Take::Message(progress.lease(sequence, stored, 1, now));
            }
        }
        Take::Nothing(progress.pending.values().map(|pending| pending.due).min())
    }

    /// What a puller says about delivery `attempt` of a message. Of an earlier delivery only an acknowledgement counts.
    pub(super) fn answer(
        &mut self,
        durable: &str,
        (sequence, attempt): (u64, u64),
        answer: Answer,
        now: Instant,
    ) {
        let Some(progress) = self.durables.get_mut(durable) else {
            return;
        };
        let wait = progress.durable.redelivery.wait(attempt);
        let Some(pending) = progress.pending.get_mut(&sequence) else {
            return;
        };
        let current = pending.attempt == attempt;
        match answer {
            Answer::Ack => drop(progress.pending.remove(&sequence)),
            _ if !current => {}
            Answer::Nak => pending.due = now,
            Answer::NakAfter(delay) => pending.due = now + delay,
            Answer::Progress => pending.due = now + wait,
            Answer::Terminate(reason) => {
                let index = usize::try_from(sequence.saturating_sub(self.first)).ok();
                if let Some(stored) = index.and_then(|index| self.messages.get(index)) {
                    progress.give_up(sequence, stored, reason, self.messages_max);
                }
            }
        }
    }

    /// The sequence of the next message.
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn forget(&mut self, now: Instant) {
        while let Some(id) = self.ids_by_age.front()
            && self.ids.get(id).is_none_or(|until| *until <= now)
        {
            self.ids.remove(id);
            self.ids_by_age.pop_front();
        }
    }
}

impl Progress {
    /// The first message that it needs.
    fn floor(&self) -> u64 {
        self.pending.keys().next().copied().unwrap_or(self.next)
    }

    /// One whose time is over, and how often it was delivered.
    fn due(&self, now: Instant) -> Option<(u64, u64)> {
        let mut pending = self.pending.iter();
        pending.find_map(|(sequence, pending)| {
            (pending.due <= now).then_some((*sequence, pending.attempt))
        })
    }

    fn lease(&mut self, sequence: u64, stored: &Stored, attempt: u64, now: Instant) -> Delivered {
        let due = now + self.durable.redelivery.wait(attempt);
        self.pending.insert(sequence, Pending { attempt, due });
        let reply = format!("{sequence}.{attempt}").into();
        Delivered::new(
            stored.message.clone(),
            sequence,
            stored.at_ms,
            attempt,
            reply,
        )
    }

    /// The oldest dead letters make room, as there is no end to them.
    fn give_up(&mut self, sequence: u64, stored: &Stored, reason: String, dead_max: usize) {
        let pending = self.pending.remove(&sequence);
        tracing::warn!(
            durable = &*self.durable.name,
            sequence,
            reason,
            "message given up"
        );
        if self.dead.len() >= dead_max {
            self.dead.pop_front();
        }
        self.dead.push_back(DeadLetter {
            message: stored.message.clone(),
            sequence,
            attempts: pending.map_or(0, |pending| pending.attempt),
            reason,
        });
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
