//! A batch into the streams: first the dead letters and replies that go with it, then its events and the cursor in one piece.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use super::cursor::Cursor;
use super::metrics::Metrics;
use super::queue::{Dead, Input};
use super::trace::Trace;
use crate::dlq::{Kept, NotKept, Once};
use crate::jetstream::{Link, atomic};
use crate::message::Message;
use crate::telemetry::otlp::Spans;

/// How long one answer of JetStream may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Replies that wait for their answer at once.
const REPLIES_AT_ONCE: usize = 256;

/// Why a batch is not stored, or not known to be. Who goes on reads the cursor again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("dead letter: {0}")]
    DeadLetter(#[from] NotKept),
    #[error("reply: {0}")]
    Reply(atomic::Error),
    #[error("events: {0}")]
    Events(#[from] atomic::Error),
}

/// What was stored.
pub(super) struct Stored {
    /// The place that the cursor names now.
    pub(super) cursor: Cursor,
    /// The cursor's own sequence.
    pub(super) revision: u64,
}

/// Stores the batches of one shard, one after the other.
pub(super) struct Storing {
    pub(super) link: Link,
    pub(super) shard: u32,
    pub(super) dead_letters: Once,
    pub(super) metrics: Metrics,
    pub(super) spans: Spans,
}

impl Storing {
    /// Stores what becomes of some inputs, and the cursor behind them in place of the one with this sequence of its own.
    pub(super) async fn store(
        &mut self,
        inputs: Vec<Input>,
        mut cursor: Cursor,
        revision: u64,
    ) -> Result<Stored, Error> {
        let count = inputs.len();
        let traces = self.traces(&inputs);
        let mut messages = Vec::new();
        let mut replies = Vec::new();
        for input in inputs {
            if let Some(dead) = &input.dead {
                self.keep(dead).await?;
            }
            replies.extend(input.reply);
            messages.extend(input.events);
            cursor.sequence = input.sequence;
            if cursor.created != *input.created {
                cursor.created = input.created.to_string();
            }
        }
        self.reply(replies).await?;
        messages.push(cursor.message(self.shard, revision));
        let stored = atomic::commit(&self.link, &messages, ANSWER_MAX).await?;
        self.metrics.batches.inc();
        self.metrics.inputs.inc_by(count as u64);
        self.metrics.events.inc_by(stored.count as u64 - 1);
        for trace in traces {
            trace.end(&self.spans);
        }
        Ok(Stored {
            cursor,
            revision: stored.sequence,
        })
    }

    async fn keep(&mut self, dead: &Dead) -> Result<(), Error> {
        match self.dead_letters.keep(&dead.message, ANSWER_MAX).await? {
            Kept::New => self.metrics.dead_letter(dead.reason),
            Kept::Before => {}
            Kept::Lost => drop(self.metrics.dead_letters_lost.inc()),
        }
        Ok(())
    }

    /// Those of the inputs that are sampled.
    fn traces(&self, inputs: &[Input]) -> Vec<Trace> {
        let inputs = inputs.iter().filter(|_| self.spans.is_on());
        inputs
            .filter_map(|input| Trace::of(&self.spans, input))
            .collect()
    }

    /// Returns when each is stored, or refused: a device that has too much waiting for it does without.
    async fn reply(&self, replies: Vec<Message>) -> Result<(), Error> {
        let commits = stream::iter(replies)
            .map(|reply| async move { atomic::commit(&self.link, &[reply], ANSWER_MAX).await });
        let mut answers = commits.buffered(REPLIES_AT_ONCE);
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(_) => drop(self.metrics.replies.inc()),
                Err(atomic::Error::Unanswered(reason)) => {
                    return Err(Error::Reply(atomic::Error::Unanswered(reason)));
                }
                Err(error) if !self.link.is_connected() => return Err(Error::Reply(error)),
                Err(error) => {
                    self.metrics.replies_refused.inc();
                    tracing::debug!(%error, "reply not stored");
                }
            }
        }
        Ok(())
    }
}
