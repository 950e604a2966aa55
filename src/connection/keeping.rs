//! Writing the session of one connection: one write at a time, and what nobody waits for only now and then.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::driver::Driver;
use crate::ownership::{Error, Held};
use crate::session::{CloseReason, Record};

/// How long until a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

type Writing = Pin<Box<dyn Future<Output = (Held, Result<(), Error>)> + Send>>;

pub(super) struct Keeper {
    /// None while a write has it; after one that found it fenced, of no use.
    held: Option<Held>,
    writing: Option<Writing>,
    due: Option<Instant>,
}

/// How a write ended.
pub(super) enum Kept {
    /// The session is written.
    Saved,
    /// Another connection holds the session.
    Fenced,
}

impl Keeper {
    pub(super) fn new(held: Held) -> Self {
        Self {
            held: Some(held),
            writing: None,
            due: None,
        }
    }

    /// Writes the session; it asks for no other write meanwhile.
    pub(super) fn save(&mut self, record: Record) {
        self.due = None;
        if let Some(held) = self.held.take() {
            self.writing = Some(Box::pin(write(held, record)));
        }
    }

    pub(super) fn poll_kept(&mut self, context: &mut Context<'_>) -> Poll<Kept> {
        let Some(writing) = &mut self.writing else {
            return Poll::Pending;
        };
        let (held, written) = ready!(writing.as_mut().poll(context));
        self.writing = None;
        self.held = Some(held);
        Poll::Ready(match written {
            Ok(()) => Kept::Saved,
            Err(_) => Kept::Fenced,
        })
    }

    /// Sets the time, `interval` from now, for what changed without anybody waiting.
    pub(super) fn observe(&mut self, is_dirty: bool, interval: Duration) {
        match is_dirty {
            true => drop(self.due.get_or_insert_with(|| Instant::now() + interval)),
            false => self.due = None,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The session for its last write, behind the one under way; none if it is fenced.
    pub(super) async fn finish(self) -> Option<Held> {
        match (self.held, self.writing) {
            (Some(held), _) => Some(held),
            (None, Some(writing)) => {
                let (held, written) = writing.await;
                written.is_ok().then_some(held)
            }
            (None, None) => None,
        }
    }
}

/// Writes until it is written or somebody else's.
async fn write(mut held: Held, record: Record) -> (Held, Result<(), Error>) {
    loop {
        match held.save(record.clone()).await {
            Err(Error::Unavailable(error)) => {
                tracing::debug!(%error, "session not written yet");
                sleep(RETRY).await;
            }
            written => return (held, written),
        }
    }
}

impl Driver {
    pub(super) fn handle_kept(&mut self, kept: Kept) {
        match kept {
            Kept::Saved => {
                self.session.handle_saved();
                self.drain_outputs(None);
                self.resume();
            }
            Kept::Fenced => self.closing = Some(CloseReason::TakenOver),
        }
    }
}
