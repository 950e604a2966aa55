//! The messages in the hands of this replica, from their delivery to their answer. Pure.
//!
//! Invariant: a message is here once, however often the server delivers it meanwhile; the last delivery is the one to answer.

use std::collections::HashMap;

use super::Order;
use super::event::original_subject;
use super::lanes::Lanes;
use crate::jetstream::consumer::Delivered;
use crate::message::Subject;

/// What is known about one of them while it waits or is handled.
#[derive(Debug)]
pub(super) struct Held {
    /// Where its answer goes.
    pub(super) reply: Subject,
    /// Its last delivery, from 1.
    pub(super) attempt: u64,
    lane: Option<Subject>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Inflight {
    durable: Box<str>,
    order: Order,
    /// By stream sequence.
    held: HashMap<u64, Held>,
    lanes: Lanes<Delivered>,
}

impl Inflight {
    pub(super) fn new(durable: &str, order: Order) -> Self {
        Self {
            durable: durable.into(),
            order,
            held: HashMap::new(),
            lanes: Lanes::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// A message came.
    pub(super) fn take(&mut self, delivered: Delivered) {
        if let Some(held) = self.held.get_mut(&delivered.sequence) {
            // Someone paused for long, we or the server: it is in our hands still, and is not begun twice.
            held.reply = delivered.reply;
            held.attempt = delivered.attempt;
            return;
        }
        let lane = self.lane(&delivered.message.subject);
        let held = Held {
            reply: delivered.reply.clone(),
            attempt: delivered.attempt,
            lane: lane.clone(),
        };
        self.held.insert(delivered.sequence, held);
        self.lanes.push(lane.as_ref(), delivered);
    }

    /// The next one to be handled.
    pub(super) fn next(&mut self) -> Option<Delivered> {
        self.lanes.next()
    }

    /// One that was [`next`](Self::next) is done; what is to be answered.
    pub(super) fn finish(&mut self, sequence: u64) -> Option<Held> {
        let held = self.held.remove(&sequence)?;
        self.lanes.finish(held.lane.as_ref());
        Some(held)
    }

    /// Where the server is told that they are not forgotten.
    pub(super) fn replies(&self) -> impl Iterator<Item = &Subject> {
        self.held.values().map(|held| &held.reply)
    }

    fn lane(&self, subject: &Subject) -> Option<Subject> {
        let original = original_subject(subject, &self.durable);
        match self.order {
            Order::Any => None,
            Order::Subject => Some(original),
            Order::Tokens(count) => {
                let tokens: Vec<_> = original.split('.').take(count).collect();
                Some(tokens.join(".").into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, Message};

    fn delivered(subject: &str, sequence: u64, attempt: u64) -> Delivered {
        Delivered {
            message: Message {
                subject: subject.into(),
                headers: Headers::default(),
                payload: "".into(),
            },
            sequence,
            attempt,
            bytes: 0,
            reply: format!("{sequence}.{attempt}").into(),
        }
    }

    fn begun(order: Order, subjects: &[&str]) -> Vec<u64> {
        let mut inflight = Inflight::new("d", order);
        for (subject, sequence) in subjects.iter().zip(1..) {
            inflight.take(delivered(subject, sequence, 1));
        }
        std::iter::from_fn(|| inflight.next())
            .map(|delivered| delivered.sequence)
            .collect()
    }

    #[test]
    fn the_order_says_who_waits_for_whom() {
        let subjects = ["a.b.c", "a.b.d", "a.e.c", "a.b.c", "replay.d.a.b.c"];
        assert_eq!(begun(Order::Any, &subjects), [1, 2, 3, 4, 5]);
        assert_eq!(begun(Order::Subject, &subjects), [1, 2, 3]);
        assert_eq!(begun(Order::Tokens(2), &subjects), [1, 3]);
    }

    #[test]
    fn a_message_that_comes_again_is_begun_once_and_answered_as_it_came_last() {
        let mut inflight = Inflight::new("d", Order::Any);
        inflight.take(delivered("a", 7, 1));
        assert!(inflight.next().is_some());
        inflight.take(delivered("a", 7, 2));
        assert!(inflight.next().is_none());
        assert_eq!(inflight.len(), 1);
        let held = inflight.finish(7).unwrap();
        assert_eq!((&*held.reply, held.attempt), ("7.2", 2));
        assert_eq!(inflight.len(), 0);
        assert!(inflight.finish(7).is_none());
    }
}
