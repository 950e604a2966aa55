//! A session that a connection holds: every write of it goes through here, one behind the other.

use std::sync::Arc;
use std::time::Duration;

use super::document::{Document, WillDocument};
use super::{Error, Ownership, WillMessage};
use crate::jetstream::bucket::{self, Expect};
use crate::mqtt::Publish;
use crate::session::Record;
use crate::telemetry;

/// How long it is known that a session is over: longer than two nodes may differ about it.
const MARKER: Duration = Duration::from_secs(60);

/// The right to write one session; another connection's claim ends it.
pub struct Held {
    pub(super) ownership: Ownership,
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    pub(super) document: Document,
}

/// How a connection leaves its session.
#[derive(Debug)]
pub struct End {
    /// The session state, if it outlives the connection.
    pub session: Option<Record>,
    /// For how long, in seconds.
    pub expiry_s: u32,
    /// Whether the Will counts.
    pub will: bool,
}

impl Held {
    /// Rises with every connection of the device.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.document.epoch
    }

    /// Writes the session state.
    ///
    /// # Errors
    /// [`Error::Fenced`] is final; after [`Error::Unavailable`] it may be tried again.
    pub async fn save(&mut self, session: Record) -> Result<(), Error> {
        self.document.session = Some(session);
        self.write(None).await
    }

    /// Writes how the connection left; gives the Will if it is to be published now. What waits is this node's to publish.
    ///
    /// # Errors
    /// As [`Self::save`]: fenced, nothing of this connection counts any more, the Will neither.
    pub async fn end(&mut self, end: End) -> Result<Option<Publish>, Error> {
        let now = telemetry::now_unix_ms();
        self.document.session = end.session;
        self.document.expiry_s = end.expiry_s;
        if !end.will {
            self.document.will = None;
        }
        self.document.disconnect(now);
        let will = self.document.take_due_will(now);
        self.settle(now).await?;
        Ok(will)
    }

    /// The Will that counts although the end could not be written; whoever reads the session later publishes it under the same id.
    #[must_use]
    pub fn will_now(&mut self, now_ms: u64) -> Option<Publish> {
        self.document.take_due_will(now_ms)
    }

    /// Writes an ended session for the time that is left of it, or removes it.
    pub(super) async fn settle(&mut self, now_ms: u64) -> Result<(), Error> {
        let due_ms = self.document.will.as_ref().and_then(|will| will.due_ms);
        self.document.node = due_ms.map(|_| self.ownership.node().into());
        if self.document.session.is_none() || self.document.is_expired(now_ms) {
            return self.remove().await;
        }
        let left = Duration::from_secs(self.document.time_to_live_s(now_ms));
        self.write(Some(left)).await?;
        if let Some(due_ms) = due_ms {
            self.ownership.wills().schedule(&self.key, due_ms);
        }
        Ok(())
    }

    async fn write(&mut self, time_to_live: Option<Duration>) -> Result<(), Error> {
        let expected = Expect::Revision(self.revision);
        let value = self.document.write();
        let bucket = self.ownership.sessions();
        let written = bucket.put(&self.key, value, expected, time_to_live).await;
        self.revision = written.map_err(fenced)?;
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), Error> {
        let expected = Expect::Revision(self.revision);
        let removed = (self.ownership.sessions()).delete(&self.key, expected, MARKER).await;
        self.revision = removed.map_err(fenced)?;
        Ok(())
    }

    /// Keeps a Will for the case that the node dies; only before the first write.
    pub(super) fn will_document(will: Option<&WillMessage>) -> Option<WillDocument> {
        will.map(WillDocument::new)
    }
}

/// Somebody else wrote the key: it is not ours any more.
pub(super) fn fenced(error: bucket::Error) -> Error {
    match error {
        bucket::Error::Conflict { .. } => Error::Fenced,
        error => Error::Unavailable(error),
    }
}
