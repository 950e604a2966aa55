//! What was read and is not stored yet, in order. Pure data.
//!
//! Bounded in bytes: without room nothing more is read. What is taken together is stored in one piece, so a batch is as large as
//! what came while the one before was being stored: one message alone leaves at once, a crowd leaves together, without a timer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::jetstream::atomic;
use crate::message::Message;

/// The most events of one batch: beside them there is the cursor.
const EVENTS_MAX: usize = atomic::MESSAGES_MAX - 1;
/// What an input costs beside its messages.
const OVERHEAD_BYTES: usize = 256;

/// What a message of the source stream becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// When the source stream was created.
    pub(super) created: Arc<str>,
    /// Its place there: when it is stored, everything up to here is.
    pub(super) sequence: u64,
    /// In order; at most as many as a batch takes.
    pub(super) events: Vec<Message>,
    /// To be kept, if the message has a fault.
    pub(super) dead: Option<Dead>,
    /// To the device.
    pub(super) reply: Option<Message>,
}

/// A dead letter, and what it is counted as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) reason: &'static str,
    pub(super) message: Message,
}

impl Input {
    /// One that gives nothing: everything up to here in the stream of that time of creation is passed.
    pub(super) fn place(created: &Arc<str>, sequence: u64) -> Self {
        Self {
            created: Arc::clone(created),
            sequence,
            events: Vec::new(),
            dead: None,
            reply: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.dead.is_none() && self.reply.is_none()
    }

    fn bytes(&self) -> usize {
        let dead = self.dead.as_ref().map(|dead| &dead.message);
        let messages = self.events.iter().chain(dead).chain(&self.reply);
        OVERHEAD_BYTES + messages.map(Message::wire_bytes).sum::<usize>()
    }
}

/// Inputs in the order of the source stream.
#[derive(Debug)]
pub(super) struct Queue {
    inputs: VecDeque<Input>,
    bytes: usize,
    bytes_max: usize,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            inputs: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < self.bytes_max
    }

    /// Adds one behind the others.
    pub(super) fn push(&mut self, input: Input) {
        // Of what is only passed, the last place says it all.
        if input.is_empty()
            && let Some(last) = self.inputs.back_mut().filter(|last| last.is_empty())
        {
            *last = input;
            return;
        }
        self.bytes += input.bytes();
        self.inputs.push_back(input);
    }

    /// Takes what fits in one batch, at most `inputs_max` and at least one; nothing if there is nothing.
    pub(super) fn take(&mut self, inputs_max: usize) -> Vec<Input> {
        let mut taken = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        while let Some(next) = self.inputs.front() {
            events += next.events.len();
            bytes += next.bytes();
            let fits = events <= EVENTS_MAX && bytes <= self.bytes_max && taken.len() < inputs_max;
            if !fits && !taken.is_empty() {
                break;
            }
            self.bytes -= next.bytes();
            taken.extend(self.inputs.pop_front());
        }
        taken
    }

    /// The sequence of the first one.
    pub(super) fn first(&self) -> Option<u64> {
        self.inputs.front().map(|input| input.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(sequence: u64, events: usize, bytes: usize) -> Input {
        let message = Message {
            subject: "s".into(),
            headers: Default::default(),
            payload: vec![0; bytes].into(),
        };
        Input {
            created: "c".into(),
            sequence,
            events: vec![message; events],
            dead: None,
            reply: None,
        }
    }

    fn taken(queue: &mut Queue, inputs_max: usize) -> Vec<u64> {
        let inputs = queue.take(inputs_max);
        inputs.iter().map(|input| input.sequence).collect()
    }

    #[test]
    fn a_batch_has_as_many_events_and_bytes_as_fit_and_at_least_one_input() {
        let mut queue = Queue::new(10_000);
        for (sequence, events, bytes) in [(1, 600, 0), (2, 399, 0), (3, 1, 0), (4, 1, 20_000)] {
            queue.push(input(sequence, events, bytes));
        }
        queue.bytes_max = 100_000;
        assert_eq!(taken(&mut queue, 9), [1, 2]);
        queue.bytes_max = 10_000;
        assert_eq!(queue.first(), Some(3));
        assert!(!queue.has_room());
        assert_eq!(taken(&mut queue, 9), [3]);
        assert_eq!(taken(&mut queue, 9), [4]);
        assert_eq!(taken(&mut queue, 9), [0; 0]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn one_at_a_time_if_asked() {
        let mut queue = Queue::new(10_000);
        queue.push(input(1, 1, 0));
        queue.push(input(2, 1, 0));
        assert_eq!(taken(&mut queue, 1), [1]);
        assert_eq!(taken(&mut queue, 1), [2]);
    }

    #[test]
    fn what_is_only_passed_takes_one_place() {
        let mut queue = Queue::new(10_000);
        for (sequence, events) in [(1, 0), (2, 0), (3, 1), (4, 0), (5, 0)] {
            queue.push(input(sequence, events, 0));
        }
        assert_eq!(taken(&mut queue, 9), [2, 3, 5]);
        assert_eq!(queue.bytes, 0);
    }
}
