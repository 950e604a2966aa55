//! What may leave only after the session is saved: answers that promise something, and messages written ahead.
//!
//! At most one write is under way. What asks for the next one meanwhile shares it, so that a busy session costs one write
//! for each answer time of the store. Outputs leave in the order in which they came here. A session that is not stored has
//! an open gate: nothing waits.

use std::collections::VecDeque;

use super::Output;

/// Outputs that wait for a write. Writes are numbered from 1 in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Each with the write that it needs; these numbers never fall.
    waiting: VecDeque<(u64, Output)>,
    /// The last write that began.
    begun: u64,
    /// The last write that is done.
    done: u64,
    /// A write is wanted although nothing waits for it.
    wanted: bool,
}

impl Gate {
    /// Keeps an output until the state as it is now is saved.
    pub(super) fn hold(&mut self, output: Output) {
        self.waiting.push_back((self.begun + 1, output));
    }

    /// Keeps an output behind those that wait; back if none does.
    pub(super) fn follow(&mut self, output: Output) -> Option<Output> {
        let Some((needed, _)) = self.waiting.back() else {
            return Some(output);
        };
        self.waiting.push_back((*needed, output));
        None
    }

    /// Asks for a write that nothing waits for.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether a write begins now: one is wanted, and none is under way.
    pub(super) fn begin(&mut self) -> bool {
        let needed = self
            .waiting
            .back()
            .is_some_and(|(needed, _)| *needed > self.begun);
        let begins = self.begun == self.done && (needed || self.wanted);
        if begins {
            self.begun += 1;
            self.wanted = false;
        }
        begins
    }

    /// The write under way is done.
    pub(super) fn finish(&mut self) {
        self.done = self.begun;
    }

    /// The next output that waits no longer.
    pub(super) fn pop(&mut self) -> Option<Output> {
        if self
            .waiting
            .front()
            .is_some_and(|(needed, _)| *needed <= self.done)
        {
            return self.waiting.pop_front().map(|(_, output)| output);
        }
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new(); // An idle device keeps no buffer.
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether such an output waits.
    pub(super) fn holds(&self, kind: impl Fn(&Output) -> bool) -> bool {
        self.waiting.iter().any(|(_, output)| kind(output))
    }

    /// How many such outputs wait.
    pub(super) fn count(&self, kind: impl Fn(&Output) -> bool) -> usize {
        let waiting = self.waiting.iter();
        waiting.filter(|(_, output)| kind(output)).count()
    }
}
