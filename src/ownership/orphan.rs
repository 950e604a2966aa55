//! What a session is owed that has no connection: the status of one whose node died, a Will whose time has come.
//!
//! An orphan is adopted first, by compare-and-set, so that one node cares for it; should that die too, the next one does it
//! again, under the same message ids. The end is written last.

use std::sync::Arc;

use super::held::{Held, fenced};
use super::{Error, Ownership};
use crate::device::Connection;
use crate::jetstream::bucket::{Entry, Expect};
use crate::mqtt::Publish;
use crate::telemetry;

use super::document::Document;

/// Why a session is an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its node died while the device was connected.
    Lost,
    /// Its device did not come back before the Will was due.
    WillDue,
}

/// A session that this node cares for.
pub struct Orphan {
    /// Why.
    pub kind: Kind,
    /// The connection that it had.
    pub connection: Connection,
    /// The Will, if it is to be published now.
    pub will: Option<Publish>,
    held: Held,
    now_ms: u64,
}

impl Orphan {
    /// What was owed is done: writes the end.
    ///
    /// # Errors
    /// [`Error::Fenced`] if the device came back meanwhile, which is as well.
    pub async fn settle(mut self) -> Result<(), Error> {
        self.held.settle(self.now_ms).await
    }
}

impl Ownership {
    /// Adopts what a key holds if a node that is not `alive` owes something for it.
    pub(super) async fn adopt_lost(
        &self,
        key: &str,
        entry: &Entry,
        alive: impl Fn(&str) -> bool,
    ) -> Result<Option<Orphan>, Error> {
        let Some(document) = entry.value.as_deref().and_then(Document::read) else {
            return Ok(None);
        };
        match document.node.as_deref() {
            None => return Ok(None),
            Some(node) if alive(node) => return Ok(None),
            Some(_) => {}
        }
        self.adopt(key, entry.revision, document).await
    }

    /// Adopts what a key holds if its Will is due.
    pub(super) async fn adopt_due(&self, key: &str) -> Result<Option<Orphan>, Error> {
        let Some(entry) = self.sessions().get_from_leader(key).await? else {
            return Ok(None);
        };
        let Some(document) = entry.value.as_deref().and_then(Document::read) else {
            return Ok(None);
        };
        let now = telemetry::now_unix_ms();
        let due = document.will.as_ref().and_then(|will| will.due_ms);
        if document.is_connected() || due.is_none_or(|due| due > now) {
            return Ok(None);
        }
        self.adopt(key, entry.revision, document).await
    }

    async fn adopt(
        &self,
        key: &str,
        revision: u64,
        mut document: Document,
    ) -> Result<Option<Orphan>, Error> {
        if document.epoch == 0 {
            document.epoch = revision;
        }
        let Ok(connection) = document.connection.connection(document.epoch) else {
            return Ok(None);
        };
        document.node = Some(self.node().into());
        let written = self
            .sessions()
            .put(key, document.write(), Expect::Revision(revision), None)
            .await
            .map_err(fenced);
        let revision = match written {
            Ok(revision) => revision,
            // Another node was first, or the device is back.
            Err(Error::Fenced) => return Ok(None),
            Err(error) => return Err(error),
        };
        let now_ms = telemetry::now_unix_ms();
        let kind = match document.is_connected() {
            true => Kind::Lost,
            false => Kind::WillDue,
        };
        if kind == Kind::Lost {
            document.disconnect(now_ms);
        }
        let will = document.take_due_will(now_ms);
        Ok(Some(Orphan {
            kind,
            connection,
            will,
            held: Held {
                ownership: self.clone(),
                key: Arc::from(key),
                revision,
                document,
            },
            now_ms,
        }))
    }
}
