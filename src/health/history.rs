//! The course of a number that only rises, over the last two windows. Without a clock of its own.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What a counter read, and when.
#[derive(Debug)]
pub(super) struct History {
    window: Duration,
    readings: VecDeque<(Instant, u64)>,
}

impl History {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            readings: VecDeque::new(),
        }
    }

    /// Notes a reading; one that is lower than the last means that the counter began anew.
    pub(super) fn note(&mut self, now: Instant, value: u64) {
        if self.readings.back().is_some_and(|(_, last)| *last > value) {
            self.readings.clear();
        }
        self.readings.push_back((now, value));
        // The newest reading before the two windows is where they begin.
        while let Some((second, _)) = self.readings.get(1)
            && now.duration_since(*second) >= self.window * 2
        {
            self.readings.pop_front();
        }
    }

    /// By how much it rose within the last window, or since the first reading if that is later.
    pub(super) fn risen(&self) -> u64 {
        let (Some((now, last)), Some((_, first))) = (self.readings.back(), self.readings.front())
        else {
            return 0;
        };
        let begin = self.at(*now, self.window).unwrap_or(*first);
        last - begin
    }

    /// By how much it rose within the window before, and within the last one; none until both are over.
    pub(super) fn steps(&self) -> Option<(u64, u64)> {
        let (now, last) = *self.readings.back()?;
        let middle = self.at(now, self.window)?;
        let first = self.at(now, self.window * 2)?;
        Some((middle - first, last - middle))
    }

    /// What it read so long ago.
    fn at(&self, now: Instant, ago: Duration) -> Option<u64> {
        let mut before = self.readings.iter().rev();
        let found = before.find(|(at, _)| now.duration_since(*at) >= ago);
        found.map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    #[test]
    fn windows_are_compared_once_both_are_over() {
        let (mut history, start) = (History::new(WINDOW), Instant::now());
        for second in 0..=60 {
            let now = start + Duration::from_secs(second);
            // One a second, and then three.
            let value = second + second.saturating_sub(40) * 2;
            history.note(now, value);
            match second {
                0..20 => assert_eq!(history.steps(), None, "{second}"),
                20..=40 => assert_eq!(history.steps(), Some((10, 10)), "{second}"),
                50 => assert_eq!(history.steps(), Some((10, 30))),
                60 => assert_eq!(history.steps(), Some((30, 30))),
                _ => {}
            }
            assert!(history.readings.len() <= 22, "it does not grow");
        }
        assert_eq!(history.risen(), 30);
    }

    #[test]
    fn a_counter_that_begins_anew_has_no_past() {
        let (mut history, start) = (History::new(WINDOW), Instant::now());
        history.note(start, 7);
        assert_eq!(history.risen(), 0);
        history.note(start + WINDOW / 2, 9);
        assert_eq!(history.risen(), 2);
        history.note(start + WINDOW, 1);
        assert_eq!((history.risen(), history.steps()), (0, None));
    }
}
