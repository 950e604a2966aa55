//! What was read and is not written yet, in order. Pure data.
//!
//! Bounded in bytes and reports: without room nothing more is read. A batch is as large as what came while the one before was being
//! written: one report alone leaves at once, a crowd leaves together, without a timer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::device::DeviceId;
use crate::message::Message;
use crate::position::Report;

/// What an input and a report cost beside the message.
const INPUT_BYTES: usize = 256;
const REPORT_BYTES: usize = 256;
/// What may wait beside a batch.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// When the stream that messages come from was created; it tells their sequences from those of its successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Created {
    /// As the server writes it.
    pub(super) text: Arc<str>,
    /// Unix nanoseconds.
    pub(super) ns: i64,
}

/// A message of the source stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Input {
    pub(super) created: Created,
    /// Its place there: when it is written, everything up to here is.
    pub(super) sequence: u64,
    /// None: it has no position, or is not this shard's.
    pub(super) found: Option<Found>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) message: Message,
    pub(super) device: DeviceId,
    pub(super) received_ms: u64,
    pub(super) traceparent: String,
    /// In order.
    pub(super) reports: Vec<Report>,
    pub(super) death: Option<Death>,
}

/// Why the message becomes a dead letter, beside the reports that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) reason: &'static str,
    pub(super) path: String,
    pub(super) rule: String,
}

impl Input {
    fn bytes(&self) -> usize {
        let found = self.found.as_ref();
        let found = found.map_or(0, |found| {
            found.message.wire_bytes() + found.reports.len() * REPORT_BYTES
        });
        INPUT_BYTES + found
    }

    /// How many reports it has.
    pub(super) fn rows(&self) -> usize {
        self.found.as_ref().map_or(0, |found| found.reports.len())
    }
}

/// Inputs in the order of the source stream.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inputs: VecDeque<Input>,
    bytes: usize,
    /// How many of them say something.
    found: usize,
}

impl Queue {
    pub(super) fn has_room(&self) -> bool {
        self.bytes < BYTES_MAX
    }

    /// Adds one behind the others.
    pub(super) fn push(&mut self, input: Input) {
        // Of what is only passed, the last place says it all.
        if input.found.is_none()
            && let Some(last) = self.inputs.back_mut().filter(|last| last.found.is_none())
        {
            *last = input;
            return;
        }
        self.bytes += input.bytes();
        self.found += usize::from(input.found.is_some());
        self.inputs.push_back(input);
    }

    /// Whether there is something to write, and not only places to pass.
    pub(super) fn is_worth_writing(&self) -> bool {
        self.found > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Takes what fits in one batch, and at least one input; nothing if there is nothing.
    pub(super) fn take(&mut self, rows_max: usize) -> Vec<Input> {
        let mut taken = Vec::new();
        let mut rows = 0;
        while let Some(next) = self.inputs.front() {
            rows += next.rows();
            if rows > rows_max && !taken.is_empty() {
                break;
            }
            self.bytes -= next.bytes();
            self.found -= usize::from(next.found.is_some());
            taken.extend(self.inputs.pop_front());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(sequence: u64, bytes: Option<usize>) -> Input {
        let found = bytes.map(|bytes| Found {
            message: Message {
                subject: "s".into(),
                headers: Default::default(),
                payload: vec![0; bytes].into(),
            },
            device: DeviceId::new("P", "d").unwrap(),
            received_ms: 0,
            traceparent: String::new(),
            reports: Vec::new(),
            death: None,
        });
        Input {
            created: Created {
                text: "c".into(),
                ns: 0,
            },
            sequence,
            found,
        }
    }

    #[test]
    fn what_is_only_passed_takes_one_place_and_is_not_worth_a_batch() {
        let mut queue = Queue::default();
        for (sequence, bytes) in [(1, None), (2, None), (3, Some(0)), (4, None), (5, None)] {
            queue.push(input(sequence, bytes));
            assert_eq!(queue.is_worth_writing(), sequence > 2);
        }
        let taken: Vec<u64> = queue.take(9).iter().map(|input| input.sequence).collect();
        assert_eq!(taken, [2, 3, 5]);
        assert_eq!((queue.bytes, queue.found, queue.is_empty()), (0, 0, true));
    }

    #[test]
    fn a_full_queue_takes_no_more_until_something_is_taken() {
        let mut queue = Queue::default();
        queue.push(input(1, Some(BYTES_MAX)));
        assert!(!queue.has_room());
        assert_eq!(queue.take(1).len(), 1);
        assert!(queue.has_room());
    }
}
