//! Which of the messages in our hands may be handled now: of one lane, one at a time, in the order they came. Pure.
//!
//! Invariant: a lane exists exactly while one of its messages is ready or running.

use std::collections::{HashMap, VecDeque};

use crate::message::Subject;

/// Items that wait for their turn.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    /// By lane, those behind the one that is ready or running.
    behind: HashMap<Subject, VecDeque<T>>,
    ready: VecDeque<T>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            behind: HashMap::new(),
            ready: VecDeque::new(),
        }
    }
}

impl<T> Lanes<T> {
    /// Puts an item at the end of its lane; one without a lane waits for nobody.
    pub(super) fn push(&mut self, lane: Option<&Subject>, item: T) {
        let Some(lane) = lane else {
            return self.ready.push_back(item);
        };
        match self.behind.get_mut(lane) {
            Some(behind) => behind.push_back(item),
            None => {
                self.behind.insert(lane.clone(), VecDeque::new());
                self.ready.push_back(item);
            }
        }
    }

    /// Takes the item that may run next.
    pub(super) fn next(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    /// An item that was taken is done, however it went: the one behind it may run.
    pub(super) fn finish(&mut self, lane: Option<&Subject>) {
        let Some(lane) = lane else { return };
        match self.behind.get_mut(lane).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => drop(self.behind.remove(lane)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lane_runs_in_order_and_holds_up_no_other() {
        let (a, b): (Subject, Subject) = ("a".into(), "b".into());
        let mut lanes = Lanes::default();
        for (lane, item) in [(&a, 1), (&a, 2), (&b, 3), (&a, 4)] {
            lanes.push(Some(lane), item);
        }
        let taken =
            |lanes: &mut Lanes<i32>| std::iter::from_fn(|| lanes.next()).collect::<Vec<_>>();
        assert_eq!(taken(&mut lanes), [1, 3]);
        lanes.finish(Some(&a));
        assert_eq!(taken(&mut lanes), [2]);
        lanes.finish(Some(&b));
        assert!(taken(&mut lanes).is_empty());
        lanes.finish(Some(&a));
        lanes.push(Some(&a), 5);
        assert_eq!(taken(&mut lanes), [4]);
        lanes.finish(Some(&a));
        assert_eq!(taken(&mut lanes), [5]);
        lanes.finish(Some(&a));
        assert!(lanes.behind.is_empty());
    }

    #[test]
    fn without_a_lane_all_run_at_once() {
        let mut lanes = Lanes::default();
        lanes.push(None, 1);
        lanes.push(None, 2);
        assert_eq!(
            (lanes.next(), lanes.next(), lanes.next()),
            (Some(1), Some(2), None)
        );
        lanes.finish(None);
        assert!(lanes.behind.is_empty());
    }
}
