//! Dead letters of events, each stored once however often its message is read.
//!
//! Each is stored only behind the last one of its device that was seen (`Nats-Expected-Last-Subject-Sequence`), and the last
//! one says which message it is about: what is at or before that in the source stream is kept already. That holds for as long
//! as the dead letter is there, not only for the stream's duplicate window.

use std::collections::HashMap;
use std::time::Duration;

use super::metrics::Metrics;
use super::queue::Dead;
use crate::jetstream::{Link, ReadError, Reader, atomic};
use crate::mapping::Mapping;
use crate::message::Subject;

/// Devices whose last dead letter is remembered; with more it is asked for again.
const KNOWN_MAX: usize = 10_000;

/// Why a dead letter is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Store(#[from] atomic::Error),
}

/// The last dead letter of a device: its own sequence, and which message it is about.
#[derive(Debug, Clone, Default)]
struct Last {
    sequence: u64,
    of: Option<(String, u64)>,
}

/// Stores dead letters.
pub(super) struct DeadLetters {
    link: Link,
    reader: Reader,
    known: HashMap<Subject, Last>,
    metrics: Metrics,
}

impl DeadLetters {
    pub(super) fn new(link: &Link, metrics: &Metrics) -> Self {
        Self {
            link: link.clone(),
            reader: Reader::new(link, "DLQ"),
            known: HashMap::new(),
            metrics: metrics.clone(),
        }
    }

    /// Returns when the dead letter is stored, by whomever, or cannot be: that is counted.
    pub(super) async fn keep(&mut self, dead: &Dead, limit: Duration) -> Result<(), Error> {
        let subject = &dead.message.subject;
        let Some((created, sequence)) = Mapping::dead_event_of(&dead.message) else {
            return Ok(());
        };
        loop {
            let last = self.last(subject).await?;
            let is_kept =
                |(in_stream, up_to): &(String, u64)| *in_stream == created && *up_to >= sequence;
            if last.of.as_ref().is_some_and(is_kept) {
                return Ok(());
            }
            let mut message = dead.message.clone();
            message.headers.push(
                "Nats-Expected-Last-Subject-Sequence",
                last.sequence.to_string(),
            );
            match atomic::commit(&self.link, &[message], limit).await {
                Ok(stored) => {
                    let last = Last {
                        sequence: stored.sequence,
                        of: Some((created.to_owned(), sequence)),
                    };
                    self.known.insert(subject.clone(), last);
                    self.metrics.dead_letter(dead.reason);
                    return Ok(());
                }
                Err(atomic::Error::Conflict(_)) => drop(self.known.remove(subject)),
                Err(atomic::Error::Refused(reason)) => {
                    self.metrics.dead_letters_lost.inc();
                    tracing::error!(%subject, reason, "dead letter lost");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn last(&mut self, subject: &Subject) -> Result<Last, ReadError> {
        if let Some(last) = self.known.get(subject) {
            return Ok(last.clone());
        }
        let stored = self.reader.last_on(subject).await?;
        let last = stored.map(|stored| {
            let of = Mapping::dead_event_of(&stored.message);
            Last {
                sequence: stored.sequence,
                of: of.map(|(created, sequence)| (created.to_owned(), sequence)),
            }
        });
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let last = last.unwrap_or_default();
        self.known.insert(subject.clone(), last.clone());
        Ok(last)
    }
}
