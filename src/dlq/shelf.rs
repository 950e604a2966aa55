//! Dead letters for an operator: looked at, replayed, dropped.
//!
//! A replayed dead letter is removed once its message is stored where it goes. A crash in between leaves it, and replaying it again
//! within the stream's duplicate window stores nothing twice.

use super::STREAM;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::filter::Filter;
use super::store::{Error, store};
use crate::jetstream::{Backlog, Link, Reader, Stored};
use crate::mapping::{Letter, Mapping};

/// Where dead letters are; cheap to clone.
#[derive(Clone)]
pub struct Shelf {
    link: Link,
    reader: Reader,
}

/// Dead letters one after the other, oldest first; those that come meanwhile are not among them.
pub struct Walk {
    pages: Backlog,
    filter: Filter,
    page: std::vec::IntoIter<Stored>,
}

/// What to do with a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send its message again to who gave it up, and remove it.
    Replay,
    /// Remove it.
    Drop,
}

impl Shelf {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link) -> Self {
        Self {
            link: link.clone(),
            reader: Reader::new(link, STREAM),
        }
    }

    /// Those that match, behind the number `after`.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn walk(&self, filter: Filter, after: u64) -> Result<Walk, Error> {
        let up_to = self.reader.last_sequence().await?;
        let (first, last) = (filter.ids.iter().min(), filter.ids.iter().max());
        let after = first.map_or(after, |first| after.max(first.saturating_sub(1)));
        let up_to = last.map_or(up_to, |last| up_to.min(*last));
        let pages = self.reader.walk(vec![filter.dead_subject()]);
        Ok(Walk {
            pages: pages.within(after, up_to),
            filter,
            page: Vec::new().into_iter(),
        })
    }

    /// The dead letter with this number, as it is stored.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Read`].
    pub async fn at(&self, id: u64) -> Result<(Letter, Stored), Error> {
        let stored = self.reader.at(id).await?.ok_or(Error::Unknown(id))?;
        Ok((letter(&stored), stored))
    }

    /// Does it; a dead letter that somebody else removed meanwhile is no fault.
    ///
    /// # Errors
    /// [`Error::Unreplayable`]; [`Error::Unanswered`], [`Error::Refused`] and [`Error::Read`], after which it may still be there.
    pub async fn act(&self, action: Action, stored: &Stored) -> Result<(), Error> {
        if action == Action::Replay {
            let message = Mapping::replay(stored.sequence, &stored.message)?;
            let is_new = store(&self.link, message).await?;
            tracing::debug!(id = stored.sequence, is_new, "dead letter replayed");
        }
        self.reader.remove(stored.sequence).await?;
        Ok(())
    }
}

/// All of a dead letter as JSON: what it says, its headers in order, its payload as text or in base64.
#[must_use]
pub fn described(letter: &Letter, stored: &Stored) -> Value {
    let headers = stored.message.headers.iter();
    let headers: Vec<_> = headers.map(|(name, value)| json!([name, value])).collect();
    let payload = &stored.message.payload;
    let payload = match std::str::from_utf8(payload) {
        Ok(text) => json!({ "payload": text }),
        Err(_) => json!({ "payload_base64": STANDARD.encode(payload) }),
    };
    let mut all = json!({ "dead_letter": letter, "headers": headers });
    if let (Some(all), Value::Object(payload)) = (all.as_object_mut(), payload) {
        all.extend(payload);
    }
    all
}

impl Walk {
    /// The next one; none behind the last.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn next(&mut self) -> Result<Option<(Letter, Stored)>, Error> {
        loop {
            for stored in self.page.by_ref() {
                let letter = letter(&stored);
                if self.filter.matches(&letter) {
                    return Ok(Some((letter, stored)));
                }
            }
            let page = self.pages.next_page().await?;
            if page.is_empty() {
                return Ok(None);
            }
            self.page = page.into_iter();
        }
    }
}

fn letter(stored: &Stored) -> Letter {
    Letter::read(stored.sequence, &stored.message, stored.time_ms)
}
