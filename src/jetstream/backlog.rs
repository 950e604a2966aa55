//! What lies in a stream behind a position, of several subjects, in the order of the stream and in pages.
//!
//! One `multi_last` says which subjects hold anything behind the position; each of them is read by its literal name,
//! which the server finds through an index, and the pages are merged. A wildcard would make the server scan the stream, and
//! nobody could publish meanwhile (PERFORMANCE). Beyond 1,024 subjects the wildcards are read all the same: so much is
//! waiting then that most of what the server scans is also wanted.
//!
//! Direct gets may be answered by a replica that lags behind. Where one seems to have nothing more, but should, the
//! stream's leader is asked before it is believed.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::time::sleep;

use super::Stored;
use super::direct::{End, Query};
use super::reader::{Lasts, Reader};
use super::tries::Error;
use crate::message::Subject;

/// Most messages of a page.
const PAGE_MESSAGES_MAX: usize = 256;
/// Bytes after which a page ends.
const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Subjects that are read at the same time.
const PARALLEL: usize = 16;
/// How long a replica gets to catch up before it is asked again.
const LAG: Duration = Duration::from_millis(20);

/// Reads on from page to page; what is read ahead is at most about one page, and one message a subject.
pub struct Backlog {
    reader: Reader,
    filters: Vec<Subject>,
    after: u64,
    up_to: u64,
    /// None until the subjects are known.
    cursors: Option<Vec<Cursor>>,
}

/// One subject, or one wildcard.
struct Cursor {
    filter: Subject,
    /// The next sequence to ask for.
    from: u64,
    /// The last message that is known to match; none with a wildcard, whose end the leader has to confirm.
    last: Option<u64>,
    read: VecDeque<Stored>,
    finished: bool,
}

impl Backlog {
    pub(super) fn new(reader: Reader, filters: Vec<Subject>, after: u64, up_to: u64) -> Self {
        Self {
            reader,
            filters,
            after,
            up_to,
            cursors: None,
        }
    }

    /// All that match one filter, the whole stream being walked: for buckets, where there is one message a subject, and for the head of
    /// a stream.
    pub(super) fn all(reader: Reader, filters: Vec<Subject>) -> Self {
        let cursors = filters
            .iter()
            .map(|filter| Cursor::new(filter.clone(), 0, None));
        let cursors = Some(cursors.collect());
        Self {
            cursors,
            ..Self::new(reader, filters, 0, u64::MAX)
        }
    }

    /// Begins behind `after` instead, and ends with `up_to`; before the first page.
    #[must_use]
    pub fn within(mut self, after: u64, up_to: u64) -> Self {
        for cursor in self.cursors.iter_mut().flatten() {
            cursor.from = after.saturating_add(1);
        }
        self.after = after;
        self.up_to = up_to;
        self
    }

    /// The next messages, at most 256 and about 1 MiB, in rising sequence; none when all are read.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`]. The next call goes on where this one began.
    pub async fn next_page(&mut self) -> Result<Vec<Stored>, Error> {
        let mut page = Vec::new();
        let mut bytes = 0;
        if self.after >= self.up_to {
            return Ok(page);
        }
        let cursors = match &mut self.cursors {
            Some(cursors) => cursors,
            none => none.insert(find(&self.reader, &self.filters, self.after, self.up_to).await?),
        };
        while page.len() < PAGE_MESSAGES_MAX && bytes < PAGE_BYTES_MAX {
            // The smallest head is known only once every subject has one; what is in the page by then is given first.
            if cursors.iter().any(Cursor::is_hungry) {
                if !page.is_empty() {
                    break;
                }
                fill(&self.reader, cursors, self.up_to).await?;
            }
            cursors.retain(|cursor| !cursor.read.is_empty() || !cursor.finished);
            let heads = cursors.iter().filter_map(|cursor| cursor.read.front());
            let Some(next) = heads.map(|stored| stored.sequence).min() else {
                break;
            };
            // Wildcards may overlap.
            for cursor in &mut *cursors {
                let head = cursor.read.pop_front_if(|stored| stored.sequence == next);
                if let Some(stored) = head
                    && self.after < next
                {
                    self.after = next;
                    bytes += stored.message.wire_bytes();
                    page.push(stored);
                }
            }
        }
        Ok(page)
    }
}

impl Cursor {
    fn new(filter: Subject, after: u64, last: Option<u64>) -> Self {
        Self {
            filter,
            from: after.saturating_add(1),
            last,
            read: VecDeque::new(),
            finished: false,
        }
    }

    fn is_hungry(&self) -> bool {
        self.read.is_empty() && !self.finished
    }

    /// Reads on until it has a message, or its end.
    async fn fill(&mut self, reader: &Reader, share: usize, up_to: u64) -> Result<(), Error> {
        while self.is_hungry() {
            let query = Query {
                seq: Some(self.from),
                next_by_subj: Some(&self.filter),
                batch: (PAGE_MESSAGES_MAX / share).max(1),
                max_bytes: (PAGE_BYTES_MAX / share).max(1),
                ..Query::default()
            };
            let (messages, end) = reader.direct.page(&query).await?;
            if let Some(last) = messages.last() {
                self.from = last.sequence + 1;
            }
            self.finished = self.from > self.last.unwrap_or(u64::MAX).min(up_to);
            self.read.extend(
                messages
                    .into_iter()
                    .filter(|stored| stored.sequence <= up_to),
            );
            let nothing_more = matches!(end, End::Nothing | End::More { pending: 0, .. });
            if nothing_more && !self.finished && self.read.is_empty() {
                self.confirm_end(reader, up_to).await?;
            }
        }
        Ok(())
    }

    async fn confirm_end(&mut self, reader: &Reader, up_to: u64) -> Result<(), Error> {
        let query = json!({ "seq": self.from, "next_by_subj": &*self.filter });
        let next = reader.direct.leader_get(&query).await?;
        self.finished = next.is_none_or(|stored| stored.sequence > up_to);
        if !self.finished {
            sleep(LAG).await;
        }
        Ok(())
    }
}

/// The subjects that hold something in the range; the filters themselves if there are too many.
async fn find(
    reader: &Reader,
    filters: &[Subject],
    after: u64,
    up_to: u64,
) -> Result<Vec<Cursor>, Error> {
    loop {
        let (messages, known) = match reader.lasts(filters, after, usize::MAX).await? {
            Lasts::Found { messages, known } => (messages, known),
            Lasts::TooMany => {
                let wildcard = |filter: &Subject| Cursor::new(filter.clone(), after, None);
                return Ok(filters.iter().map(wildcard).collect());
            }
        };
        let whole = match known {
            Some(known) if known >= up_to => true,
            Some(known) => known >= reader.direct.info(None).await?.last_sequence,
            None => nothing_matches(reader, filters, up_to).await?,
        };
        if whole {
            let cursor = |stored: Stored| {
                let subject = stored.message.subject;
                Cursor::new(subject, after, Some(stored.sequence))
            };
            return Ok(messages.into_iter().map(cursor).collect());
        }
        sleep(LAG).await;
    }
}

/// Whether it is true that no subject matches. A stream of one replica answers for itself.
async fn nothing_matches(reader: &Reader, filters: &[Subject], up_to: u64) -> Result<bool, Error> {
    if !reader.direct.is_replicated().await? {
        return Ok(true);
    }
    for filter in filters {
        let info = reader.direct.info(Some(filter)).await?;
        if info.has_subjects || (up_to < u64::MAX && info.last_sequence < up_to) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets every cursor have a message, or its end.
async fn fill(reader: &Reader, cursors: &mut [Cursor], up_to: u64) -> Result<(), Error> {
    let share = cursors.len();
    for some in cursors.chunks_mut(PARALLEL) {
        let mut fills = FuturesUnordered::new();
        for cursor in some {
            fills.push(cursor.fill(reader, share, up_to));
        }
        while let Some(filled) = fills.next().await {
            filled?;
        }
    }
    Ok(())
}
