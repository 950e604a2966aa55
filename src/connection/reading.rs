//! Reading back what waits for a device, within the bytes that may wait: of more, the oldest are given up.
//!
//! Where two pages hold everything they are read once. Otherwise the rest is read for its size alone, with a number for each message
//! in memory, before anything is handed over: only the end says what is too old to fit.

use std::collections::VecDeque;

use crate::jetstream::{Backlog, ReadError, Reader, Stored};
use crate::message::Subject;

/// What waits for a device up to a position.
pub(super) struct Reading {
    reader: Reader,
    filters: Vec<Subject>,
    /// The position, known to be read once there are no more pages.
    pub(super) up_to: u64,
    bytes_max: u64,
    backlog: Backlog,
    /// Read, and not given out.
    ahead: VecDeque<Vec<Stored>>,
    /// Messages before this one do not fit; none until that is known.
    first_that_fits: Option<u64>,
}

/// The messages of one page, in the order of the stream.
#[derive(Default)]
pub(super) struct Page {
    /// Those that do not fit.
    pub(super) overflow: Vec<Stored>,
    /// The others.
    pub(super) messages: Vec<Stored>,
}

impl Reading {
    pub(super) fn new(
        reader: &Reader,
        filters: Vec<Subject>,
        after: u64,
        up_to: u64,
        bytes_max: u64,
    ) -> Self {
        Self {
            reader: reader.clone(),
            backlog: reader.backlog(filters.clone(), after, up_to),
            filters,
            up_to,
            bytes_max,
            ahead: VecDeque::new(),
            first_that_fits: None,
        }
    }

    /// The next page; an empty one is the end. After an error it may be called again.
    pub(super) async fn next_page(&mut self) -> Result<Page, ReadError> {
        let first = match self.first_that_fits {
            Some(first) => first,
            None => {
                let first = self.measure().await?;
                *self.first_that_fits.insert(first)
            }
        };
        let page = match self.ahead.pop_front() {
            Some(page) => page,
            None => self.backlog.next_page().await?,
        };
        let (overflow, messages) = page.into_iter().partition(|stored| stored.sequence < first);
        Ok(Page { overflow, messages })
    }

    async fn measure(&mut self) -> Result<u64, ReadError> {
        while self.ahead.len() < 2 {
            let page = self.backlog.next_page().await?;
            let is_end = page.is_empty();
            self.ahead.push_back(page);
            if is_end {
                return Ok(0);
            }
        }
        let mut fitting = Fitting::new(self.bytes_max);
        let read = self.ahead.iter().flatten();
        read.for_each(|stored| fitting.add(stored));
        let after = fitting.last();
        let mut rest = self.reader.backlog(self.filters.clone(), after, self.up_to);
        loop {
            let page = rest.next_page().await?;
            if page.is_empty() {
                return Ok(fitting.first());
            }
            page.iter().for_each(|stored| fitting.add(stored));
        }
    }
}

/// The newest messages that fit together: sequence and bytes of each.
struct Fitting {
    bytes_max: u64,
    bytes: u64,
    messages: VecDeque<(u64, u64)>,
}

impl Fitting {
    fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            messages: VecDeque::new(),
        }
    }

    fn add(&mut self, stored: &Stored) {
        let bytes = stored.message.wire_bytes() as u64;
        self.bytes += bytes;
        self.messages.push_back((stored.sequence, bytes));
        while self.bytes > self.bytes_max
            && self.messages.len() > 1
            && let Some((_, bytes)) = self.messages.pop_front()
        {
            self.bytes -= bytes;
        }
    }

    fn first(&self) -> u64 {
        self.messages.front().map_or(0, |(sequence, _)| *sequence)
    }

    fn last(&self) -> u64 {
        self.messages.back().map_or(0, |(sequence, _)| *sequence)
    }
}
