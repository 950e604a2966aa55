//! When the lifetimes end that senders gave their downlinks: the soonest ones, in memory, on the node that watches them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends of lifetimes; cheap to clone. Nothing is kept until somebody begins.
#[derive(Clone)]
pub struct Lifetimes(Arc<Mutex<State>>);

struct State {
    max: usize,
    /// Unix milliseconds, and the stream sequence.
    ends: BTreeSet<(u64, u64)>,
    watched: bool,
    complete: bool,
}

impl Lifetimes {
    /// At most so many at the same time.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            max,
            ends: BTreeSet::new(),
            watched: false,
            complete: false,
        })))
    }

    /// From here on what is added is kept, until it is watched no more.
    pub fn watch(&self, watched: bool) {
        let mut state = self.lock();
        state.watched = watched;
        state.ends.clear();
        state.complete = watched;
    }

    /// Whether what is added is kept.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.lock().watched
    }

    /// The stream began anew: nothing that is known is true any more.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.ends.clear();
        state.complete = false;
    }

    /// The message of this sequence is worth nothing any more from then on.
    pub fn add(&self, end_ms: u64, sequence: u64) {
        let mut state = self.lock();
        if !state.watched {
            return;
        }
        state.ends.insert((end_ms, sequence));
        if state.ends.len() > state.max {
            state.ends.pop_last();
            state.complete = false;
        }
    }

    /// Takes out what has ended.
    #[must_use]
    pub fn take_ended(&self, now_ms: u64) -> Vec<u64> {
        let mut state = self.lock();
        let later = state.ends.split_off(&(now_ms + 1, 0));
        let ended = std::mem::replace(&mut state.ends, later);
        ended.into_iter().map(|(_, sequence)| sequence).collect()
    }

    /// Whether some were left out for want of room, and there is room now.
    #[must_use]
    pub fn lacks_some(&self) -> bool {
        let state = self.lock();
        state.watched && !state.complete && state.ends.len() <= state.max / 2
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_are_kept_and_that_some_are_not_is_known() {
        let lifetimes = Lifetimes::new(4);
        lifetimes.add(1, 1);
        assert!(lifetimes.take_ended(9).is_empty());
        lifetimes.watch(true);
        for at in 1..=4 {
            lifetimes.add(at * 10, at);
        }
        assert_eq!(lifetimes.take_ended(10), [1]);
        assert!(!lifetimes.lacks_some());
        lifetimes.add(50, 5);
        lifetimes.add(5, 6);
        assert!(!lifetimes.lacks_some(), "there is no room");
        assert_eq!(lifetimes.take_ended(29), [6, 2]);
        assert!(lifetimes.lacks_some());
        assert_eq!(lifetimes.take_ended(100), [3, 4]);
        lifetimes.watch(false);
        assert!(!lifetimes.lacks_some());
    }
}
