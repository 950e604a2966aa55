//! Dead letters of workers that read a stream behind a cursor, each stored once however often its message is read.
//!
//! Each is stored only behind the last one of its device that was seen (`Nats-Expected-Last-Subject-Sequence`), and the last
//! one says which message it is about: what is at or before that in the source stream is kept already. That holds for as long
//! as the dead letter is there, not only for the stream's duplicate window.

use std::collections::HashMap;
use std::time::Duration;

use super::STREAM;
use crate::jetstream::{Link, ReadError, Reader, atomic};
use crate::mapping::Mapping;
use crate::message::{Message, Subject};

/// Devices whose last dead letter is remembered; with more it is asked for again.
const KNOWN_MAX: usize = 10_000;

/// Why a dead letter is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The stream of dead letters cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It does not take it now.
    #[error(transparent)]
    Store(#[from] atomic::Error),
}

/// What became of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is stored.
    New,
    /// It was stored before, by whomever.
    Before,
    /// The stream refuses it, now and later.
    Lost,
}

/// The last dead letter of a device: its own sequence, and which message it is about.
#[derive(Debug, Clone, Default)]
struct Last {
    sequence: u64,
    of: Option<(String, u64)>,
}

/// Stores dead letters of messages that are read in the order of their stream.
pub struct Once {
    link: Link,
    reader: Reader,
    known: HashMap<Subject, Last>,
}

impl Once {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link) -> Self {
        Self {
            link: link.clone(),
            reader: Reader::new(link, STREAM),
            known: HashMap::new(),
        }
    }

    /// Returns when a dead letter of [`Mapping::dead_event`] is stored, by whomever, or cannot be. Of one subject they come in the
    /// order of the messages that they are about.
    ///
    /// # Errors
    /// It is not known whether it is stored: the answer took longer than `limit`, or nothing can be stored now.
    pub async fn keep(&mut self, dead: &Message, limit: Duration) -> Result<Kept, NotKept> {
        let subject = &dead.subject;
        let Some((created, sequence)) = Mapping::dead_event_of(dead) else {
            return Ok(Kept::Lost);
        };
        loop {
            let last = self.last(subject).await?;
            let is_kept =
                |(in_stream, up_to): &(String, u64)| *in_stream == created && *up_to >= sequence;
            if last.of.as_ref().is_some_and(is_kept) {
                return Ok(Kept::Before);
            }
            let mut message = dead.clone();
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
                    return Ok(Kept::New);
                }
                Err(atomic::Error::Conflict(_)) => drop(self.known.remove(subject)),
                Err(atomic::Error::Refused(reason)) => {
                    tracing::error!(%subject, reason, "dead letter lost");
                    return Ok(Kept::Lost);
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
