//! The depth of the stream of dead letters, by what gave them up and why.
//!
//! Each dead letter is read once. Of the newest ones is remembered which group they count to, so that the depth falls when
//! they expire; when some were dropped from between, the rest is read again, once a minute at most.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::measured::Dead;
use crate::jetstream::{Link, ReadError, Reader, Stored, StreamState};
use crate::mapping::Letter;

/// What selects all dead letters.
const FILTER: &str = "dlq.>";
/// The name of the event that a dead letter was.
const EVENT: &str = "Jw-Event";
/// So many are read; older ones are counted as `other`.
const READ_MAX: u64 = 10_000;
/// Pairs of origin and reason; what comes as a further one is counted as `other`. The gateway has a fixed set, but anybody
/// with the right to may publish into the stream.
const GROUPS_MAX: usize = 64;
const WORD_BYTES_MAX: usize = 32;
/// What is shown of a text that came with a dead letter.
const TEXT_CHARS_MAX: usize = 200;
const RECOUNT_INTERVAL: Duration = Duration::from_secs(60);
const OTHER: &str = "other";

/// Counts the dead letters of one stream.
pub(super) struct DeadLetters {
    reader: Reader,
    /// The stream's time of creation, which tells it from its successor.
    created: String,
    position: u64,
    /// Sequence and group.
    read: VecDeque<(u64, usize)>,
    /// The first one is of those that were not read.
    groups: Vec<Dead>,
    /// Messages that were not read.
    unread: u64,
    recounted: Option<Instant>,
}

impl DeadLetters {
    pub(super) fn new(link: &Link, stream: &str) -> Self {
        let other = Dead {
            origin: OTHER.to_owned(),
            reason: OTHER.to_owned(),
            ..Dead::default()
        };
        Self {
            reader: Reader::new(link, stream),
            created: String::new(),
            position: 0,
            read: VecDeque::new(),
            groups: vec![other],
            unread: 0,
            recounted: None,
        }
    }

    /// Reads what is new, and forgets what is gone. May be dropped at any time: the next look goes on where it was.
    pub(super) async fn look(&mut self) -> Result<(), ReadError> {
        let state = self.reader.state().await?.unwrap_or_default();
        if state.created != self.created || state.last_sequence < self.position {
            self.forget();
            self.created.clone_from(&state.created);
        }
        while let Some((sequence, group)) = self.read.front().copied()
            && sequence < state.first_sequence
        {
            self.read.pop_front();
            self.uncount(group);
        }
        self.read_new(&state).await?;
        let read = self.read.len() as u64;
        // What was removed after it was asked for its state is noticed the next time.
        let all_read = state.first_sequence > Self::first_wanted(&state);
        let dropped = read > state.messages || (all_read && read < state.messages);
        let is_due = self
            .recounted
            .is_none_or(|at| at.elapsed() >= RECOUNT_INTERVAL);
        if dropped && is_due {
            self.recounted = Some(Instant::now());
            self.forget();
            self.read_new(&state).await?;
        }
        self.unread = state.messages.saturating_sub(self.read.len() as u64);
        Ok(())
    }

    /// What the stream holds.
    pub(super) fn groups(&self) -> Vec<Dead> {
        let mut groups = self.groups.clone();
        if let Some(other) = groups.first_mut() {
            other.count += self.unread;
        }
        groups
    }

    fn forget(&mut self) {
        self.position = 0;
        self.read.clear();
        self.groups.iter_mut().for_each(|group| group.count = 0);
    }

    fn uncount(&mut self, group: usize) {
        if let Some(group) = self.groups.get_mut(group) {
            group.count = group.count.saturating_sub(1);
        }
    }

    /// The sequence behind which is read.
    fn first_wanted(state: &StreamState) -> u64 {
        state.last_sequence.saturating_sub(READ_MAX)
    }

    async fn read_new(&mut self, state: &StreamState) -> Result<(), ReadError> {
        let after = self.position.max(Self::first_wanted(state));
        let filters = vec![FILTER.into()];
        let mut new = self.reader.backlog(filters, after, state.last_sequence);
        loop {
            let page = new.next_page().await?;
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|stored| self.count(stored));
        }
        self.position = state.last_sequence;
        while self.read.len() as u64 > READ_MAX {
            if let Some((_, group)) = self.read.pop_front() {
                self.uncount(group);
            }
        }
        Ok(())
    }

    fn count(&mut self, stored: &Stored) {
        let message = &stored.message;
        let letter = Letter::read(stored.sequence, message, stored.time_ms);
        let number = self.group(word(&letter.origin), word(&letter.reason));
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let start = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect();
        let event = message.headers.get(EVENT).or(letter.subject.as_deref());
        group.count += 1;
        group.last_sequence = stored.sequence;
        group.event = start(event.unwrap_or(&message.subject));
        group.durable = start(letter.durable.as_deref().unwrap_or_default());
        group.attempts = letter.attempts;
        group.trace_id = start(letter.trace_id.as_deref().unwrap_or_default());
        self.read.push_back((stored.sequence, number));
        self.position = stored.sequence;
    }

    fn group(&mut self, origin: &str, reason: &str) -> usize {
        let is_it = |group: &Dead| group.origin == origin && group.reason == reason;
        let found = self.groups.iter().position(is_it);
        found.unwrap_or_else(|| {
            if self.groups.len() == GROUPS_MAX {
                return 0;
            }
            self.groups.push(Dead {
                origin: origin.to_owned(),
                reason: reason.to_owned(),
                ..Dead::default()
            });
            self.groups.len() - 1
        })
    }
}

/// A text that can be a label.
fn word(text: &str) -> &str {
    let is_word = (1..=WORD_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word { text } else { OTHER }
}
