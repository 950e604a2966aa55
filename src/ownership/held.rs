//! A session that a connection holds: every write of it goes through here, one behind the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::document::Document;
use super::{Error, Ownership};
use crate::device::Connection;
use crate::jetstream::Claimant;
use crate::jetstream::bucket::{self, Expect};
use crate::mqtt::Publish;
use crate::session::Record;
use crate::telemetry;

/// How long it is known that a session is over: longer than two nodes may differ about it.
pub(super) const MARKER: Duration = Duration::from_secs(60);
/// How long until what was not answered is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// The right to write one session; another connection's claim ends it.
pub struct Held {
    pub(super) ownership: Ownership,
    pub(super) claimant: Arc<Claimant>,
    pub(super) revision: u64,
    /// Boxed: it is rarely looked at, and moves with every write.
    pub(super) document: Box<Document>,
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

    /// The connection that holds it, with its epoch.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.document.connection
    }

    /// Writes the session state.
    ///
    /// # Errors
    /// [`Error::Fenced`] is final; after [`Error::Unavailable`] it may be tried again.
    pub async fn save(&mut self, session: Record) -> Result<(), Error> {
        self.document.session = Some(Box::new(session));
        let written = self.write(Write::Put(None)).await;
        // What is written is not kept beside what the connection knows.
        self.document.session = None;
        written
    }

    /// The connection is over: sets how it left, which [`Self::settle`] writes; gives the Will if it is to be published before.
    pub fn leave(&mut self, end: End) -> Option<Publish> {
        let now = telemetry::now_unix_ms();
        self.document.session = end.session.map(Box::new);
        self.document.expiry_s = end.expiry_s;
        if !end.will {
            self.document.will = None;
        }
        self.document.disconnect(now);
        self.document.take_due_will(now)
    }

    /// Who may publish as long as it is held.
    #[must_use]
    pub fn claimant(&self) -> &Arc<Claimant> {
        &self.claimant
    }

    /// Whether the session is still this connection's; returns once that is known.
    pub async fn is_held(&self) -> bool {
        self.ownership.confirm(&self.claimant).await
    }

    /// Writes how the connection left, and keeps the time of a Will that waits; returns once it is written, or another
    /// connection's session. Before this everything else that was owed is done: who dies before does it once more, under the
    /// same message ids.
    pub async fn settle(mut self) {
        while let Err(Error::Unavailable(error)) = self.try_settle().await {
            retry("end of a session", &error).await;
        }
    }

    async fn try_settle(&mut self) -> Result<(), Error> {
        let now = telemetry::now_unix_ms();
        let due_ms = self.document.will.as_ref().and_then(|will| will.due_ms);
        self.document.node = due_ms.map(|_| self.ownership.node().into());
        let is_over = self.document.session.is_none() || self.document.is_expired(now);
        if due_ms.is_none() && is_over {
            return self.write(Write::Remove).await;
        }
        // A Will may be due at the very end: the key stays until it is published.
        let left = Duration::from_secs(self.document.time_to_live_s(now));
        self.write(Write::Put(due_ms.is_none().then_some(left)))
            .await?;
        if let Some(due_ms) = due_ms {
            self.ownership.wills().schedule(&self.claimant.key, due_ms);
        }
        Ok(())
    }

    /// A write that is refused may stand behind an earlier one of this very connection whose answer was lost.
    async fn write(&mut self, write: Write) -> Result<(), Error> {
        loop {
            match self.try_write(write).await {
                Ok(revision) => {
                    self.revision = revision;
                    return Ok(());
                }
                Err(bucket::Error::Conflict { .. }) => {
                    let key = &self.claimant.key;
                    let own = self.ownership.held_at(key, self.epoch()).await?;
                    self.revision = own.ok_or_else(|| {
                        self.claimant.lose();
                        Error::Fenced
                    })?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn try_write(&self, write: Write) -> Result<u64, bucket::Error> {
        let (bucket, key) = (self.ownership.sessions(), &*self.claimant.key);
        let expected = Expect::Revision(self.revision);
        match write {
            Write::Put(time_to_live) => {
                let value = self.document.write();
                bucket.put(key, value, expected, time_to_live).await
            }
            Write::Remove => bucket.delete(key, expected, MARKER).await,
        }
    }
}

#[derive(Clone, Copy)]
enum Write {
    /// With its time to live.
    Put(Option<Duration>),
    Remove,
}

/// Waits before something is asked once more.
pub(super) async fn retry(what: &str, error: &bucket::Error) {
    tracing::debug!(what, %error, "no answer yet");
    sleep(RETRY).await;
}
