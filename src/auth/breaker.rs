//! A circuit breaker: whoever failed several times in a row is left alone for a while, then tried by one login at a time.
//!
//! Time is an argument. Its answer says nothing about the credentials of a login, so it never denies one (G24).
//!
//! Invariant: a try that is given up without an answer holds the others up no longer than the wait between two tries.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts failures in a row; open once there are too many.
#[derive(Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    wait: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// When open: the time of the next try.
    next_try: Option<Instant>,
}

impl Breaker {
    /// Closed; opens at the failure number `failures_max` in a row, and lets one try through every `wait`.
    #[must_use]
    pub(super) fn new(failures_max: u32, wait: Duration) -> Self {
        Self {
            failures_max,
            wait,
            state: Mutex::default(),
        }
    }

    /// Whether one may ask now. Whoever may says by [`record`](Self::record) what came of it.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let mut state = self.state();
        match state.next_try {
            None => true,
            Some(next_try) if now < next_try => false,
            Some(_) => {
                state.next_try = Some(now + self.wait);
                true
            }
        }
    }

    /// What came of asking: an answer, whatever it says, or none.
    pub(super) fn record(&self, now: Instant, answered: bool) {
        let mut state = self.state();
        if answered {
            *state = State::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.failures_max {
            state.next_try = Some(now + self.wait);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(1);

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new(3, WAIT);
        for _ in 0..3 {
            assert!(breaker.admits(now));
            breaker.record(now, false);
        }
        breaker
    }

    #[test]
    fn an_answer_in_between_keeps_it_closed() {
        let (breaker, now) = (Breaker::new(3, WAIT), Instant::now());
        for answered in [false, false, true, false, false] {
            breaker.record(now, answered);
            assert!(breaker.admits(now));
        }
        breaker.record(now, false);
        assert!(!breaker.admits(now));
    }

    #[test]
    fn an_open_one_lets_one_try_through_at_a_time() {
        let now = Instant::now();
        let breaker = opened(now);
        assert!(!breaker.admits(now + WAIT - Duration::from_millis(1)));
        let later = now + WAIT;
        assert!(breaker.admits(later));
        assert!(!breaker.admits(later));
        breaker.record(later, false);
        assert!(!breaker.admits(later + WAIT / 2));
        // This try is given up without an answer: the next one is let through after the wait all the same.
        assert!(breaker.admits(later + WAIT));
        assert!(breaker.admits(later + WAIT * 2));
    }

    #[test]
    fn an_answer_closes_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert!(breaker.admits(now + WAIT));
        breaker.record(now + WAIT, true);
        for _ in 0..10 {
            assert!(breaker.admits(now + WAIT));
        }
    }
}
