//! Reading a stream back without a consumer: by sequence, by subject, from a position on.
//!
//! A consumer per reader would cost the server more than all that is read (PERFORMANCE). Nothing here is kept between
//! calls, so a reader costs nothing while nobody reads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::json;

use super::backlog::Backlog;
use super::direct::{Direct, End, Query};
use super::tries::Error;
use super::{Link, Stored};
use crate::message::Subject;

/// Most bytes that one answer carries, and at least one message.
const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Most subjects that `multi_last` takes.
pub(super) const SUBJECTS_MAX: usize = 1024;

/// Reads one stream; cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(super) direct: Arc<Direct>,
}

/// What `multi_last` said.
pub(super) enum Lasts {
    /// The last message of each subject that matches and is behind the position; `known` is the last sequence of the stream
    /// as the answering replica has it, none if no subject matches at all.
    Found {
        messages: Vec<Stored>,
        known: Option<u64>,
    },
    /// More than 1,024 subjects match.
    TooMany,
}

impl Reader {
    /// A reader of the stream of this name; nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link, stream: &str) -> Self {
        Self {
            direct: Arc::new(Direct::new(link, stream)),
        }
    }

    /// Each subject that matches one of the filters and has a message behind `after`, with the sequence of its last one.
    ///
    /// # Errors
    /// [`Error::Refused`] when more than 1,024 subjects match; [`Error::Unanswered`].
    pub async fn last_by_subject(
        &self,
        filters: &[Subject],
        after: u64,
    ) -> Result<Vec<(Subject, u64)>, Error> {
        match self.lasts(filters, after, usize::MAX).await? {
            Lasts::TooMany => Err(Error::Refused {
                subject: format!("$JS.API.DIRECT.GET.{}", self.direct.stream()),
                reason: format!("more than {SUBJECTS_MAX} subjects match {filters:?}"),
            }),
            Lasts::Found { messages, .. } => Ok(messages
                .into_iter()
                .map(|stored| (stored.message.subject, stored.sequence))
                .collect()),
        }
    }

    /// The message with this sequence; none if it is gone, for which the stream's leader is asked.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn at(&self, sequence: u64) -> Result<Option<Stored>, Error> {
        match self.direct.at(sequence).await? {
            Some(stored) => Ok(Some(stored)),
            None => self.direct.leader_get(&json!({ "seq": sequence })).await,
        }
    }

    /// The last message of each subject that matches, at most `max`, in the order of the stream.
    ///
    /// Up to 1,024 subjects are found through the server's index. With more the whole stream is walked, which costs what
    /// it holds: meant for streams that keep one message a subject.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn last(&self, filters: &[Subject], max: usize) -> Result<Vec<Stored>, Error> {
        if let Lasts::Found { messages, .. } = self.lasts(filters, 0, max).await? {
            return Ok(messages);
        }
        let mut backlog = Backlog::all(self.clone(), filters.to_vec());
        let mut all = BTreeMap::new();
        let mut by_subject = HashMap::new();
        loop {
            let page = backlog.next_page().await?;
            if page.is_empty() {
                break;
            }
            for stored in page {
                let newest = by_subject.insert(stored.message.subject.clone(), stored.sequence);
                if let Some(older) = newest {
                    all.remove(&older);
                } else if all.len() >= max {
                    by_subject.remove(&stored.message.subject);
                    continue;
                }
                all.insert(stored.sequence, stored);
            }
        }
        Ok(all.into_values().collect())
    }

    /// All messages that match one of the filters, behind `after` and up to `up_to`, in the order of the stream.
    #[must_use]
    pub fn backlog(&self, filters: Vec<Subject>, after: u64, up_to: u64) -> Backlog {
        Backlog::new(self.clone(), filters, after, up_to)
    }

    /// All messages that match one of the filters as the stream has them, oldest first: the stream is walked from its head.
    #[must_use]
    pub fn walk(&self, filters: Vec<Subject>) -> Backlog {
        Backlog::all(self.clone(), filters)
    }

    /// The sequence that was given out last, 0 before the first.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn last_sequence(&self) -> Result<u64, Error> {
        Ok(self.direct.info(None).await?.last_sequence)
    }

    /// The last message of a literal subject, never a stale one.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn last_on(&self, subject: &str) -> Result<Option<Stored>, Error> {
        match self.direct.is_replicated().await? {
            false => self.direct.last(subject).await,
            true => {
                let query = json!({ "last_by_subj": subject });
                self.direct.leader_get(&query).await
            }
        }
    }

    /// The first message behind a sequence; a replica that lags behind may answer.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn next_after(&self, sequence: u64) -> Result<Option<Stored>, Error> {
        let query = Query {
            seq: Some(sequence.saturating_add(1)),
            next_by_subj: Some(">"),
            batch: 1,
            max_bytes: PAGE_BYTES_MAX,
            ..Query::default()
        };
        let (messages, _) = self.direct.page(&query).await?;
        Ok(messages.into_iter().next())
    }

    /// When the stream was created, which tells it from another one of the same name, and the last sequence that it gave out.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn extent(&self) -> Result<(String, u64), Error> {
        let info = self.direct.info(None).await?;
        Ok((info.created, info.last_sequence))
    }

    /// Removes the messages of a subject filter, up to and with this sequence.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn purge(&self, filter: &str, up_to: u64) -> Result<(), Error> {
        let api = format!("$JS.API.STREAM.PURGE.{}", self.direct.stream());
        let query = json!({ "filter": filter, "seq": up_to.saturating_add(1) });
        match self.direct.api(&api, &query).await? {
            Ok(_purged) => Ok(()),
            Err(error) => Err(error.refused(&api)),
        }
    }

    /// Removes the message with this sequence; whether it was there.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn remove(&self, sequence: u64) -> Result<bool, Error> {
        const NO_MESSAGE: [u64; 2] = [10_043, 10_057];
        let api = format!("$JS.API.STREAM.MSG.DELETE.{}", self.direct.stream());
        let query = json!({ "seq": sequence, "no_erase": true });
        match self.direct.api(&api, &query).await? {
            Ok(_removed) => Ok(true),
            Err(error) if NO_MESSAGE.contains(&error.err_code) => Ok(false),
            Err(error) => Err(error.refused(&api)),
        }
    }

    pub(super) async fn lasts(
        &self,
        filters: &[Subject],
        after: u64,
        max: usize,
    ) -> Result<Lasts, Error> {
        let mut found = Vec::new();
        let mut seq = after.saturating_add(1);
        loop {
            let query = Query {
                seq: Some(seq),
                multi_last: filters.iter().map(|filter| &**filter).collect(),
                batch: SUBJECTS_MAX.min(max.saturating_sub(found.len())).max(1),
                max_bytes: PAGE_BYTES_MAX,
                ..Query::default()
            };
            let (messages, end) = self.direct.page(&query).await?;
            let last = messages.last().map(|stored| stored.sequence);
            found.extend(messages);
            let known = match end {
                End::TooMany => return Ok(Lasts::TooMany),
                End::Nothing => None,
                End::More { pending, known } => match last {
                    Some(last) if pending > 0 && found.len() < max => {
                        seq = last + 1;
                        continue;
                    }
                    _ => known,
                },
            };
            return Ok(Lasts::Found {
                messages: found,
                known,
            });
        }
    }
}
