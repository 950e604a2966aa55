//! What a session is owed that has no connection: the status of one whose node died, a Will whose time has come.
//!
//! An orphan is adopted first, by compare-and-set, so that one node cares for it; should that die too, the next one does it
//! again, under the same message ids. The end is written last.

use std::sync::Arc;

use super::held::Held;
use super::{Error, Ownership};
use crate::device::Connection;
use crate::jetstream::bucket::{self, Entry, Expect};
use crate::jetstream::{Claimant, Fence};
use crate::mqtt::Publish;
use crate::telemetry;

use super::document::Document;

/// What its connection is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is over and could not say so: its node died, or does not answer.
    Lost,
    /// It has said that it is over; its Will was left.
    Will,
}

/// A session that this node cares for.
pub struct Orphan {
    /// What is owed.
    pub kind: Kind,
    /// The connection that it had.
    pub connection: Arc<Connection>,
    /// The Will, if it is to be published now.
    pub will: Option<Publish>,
    /// The session, to be settled when that is done.
    pub held: Held,
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
            // It may have come back, and this be written since.
            Some(node) if alive(node) || !self.is_gone(node).await? => return Ok(None),
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
        let due = document.will.as_ref().and_then(|will| will.due_ms);
        if document.is_connected() || due.is_none_or(|due| due > telemetry::now_unix_ms()) {
            return Ok(None);
        }
        self.adopt(key, entry.revision, document).await
    }

    /// Takes a session without a connection of its own: from now on nobody else writes it. None: somebody was faster.
    pub(super) async fn adopt(
        &self,
        key: &str,
        revision: u64,
        mut document: Document,
    ) -> Result<Option<Orphan>, Error> {
        let (epoch, term) = (document.epoch_at(revision), self.term());
        document.set_epoch(epoch);
        document.node = Some(self.node().into());
        let expected = Expect::Revision(revision);
        let written = self
            .sessions()
            .put(key, document.write(), expected, None)
            .await;
        let revision = match written {
            Ok(revision) => revision,
            Err(bucket::Error::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now_ms = telemetry::now_unix_ms();
        let kind = match document.is_connected() {
            true => Kind::Lost,
            false => Kind::Will,
        };
        if kind == Kind::Lost {
            document.disconnect(now_ms);
        }
        let will = document.take_due_will(now_ms);
        Ok(Some(Orphan {
            kind,
            connection: Arc::clone(&document.connection),
            will,
            held: Held {
                ownership: self.clone(),
                claimant: Arc::new(Claimant::new(&key.into(), epoch, term)),
                revision,
                document: Box::new(document),
            },
        }))
    }
}
