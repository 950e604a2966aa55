//! Taking a device's session: compare-and-set against whoever holds it, here or on another node.
//!
//! Connections of one device on this node take turns in the registry and never meet here; another node's is asked to let
//! go, and if it stays silent it is fenced by the write itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::document::{Document, WillDocument};
use super::held::{Held, MARKER, retry};
use super::lease::Lease;
use super::turns::{Turn, Turns};
use super::{Config, Error, NODES, Orphan, SESSIONS, WillMessage, Wills, release};
use crate::device::Connection;
use crate::jetstream::bucket::{self, Bucket, Entry, Expect};
use crate::jetstream::{Claimant, Fence, Link, ReadError};
use crate::session::Record;
use crate::telemetry;

/// How long a device that wants in is kept waiting while JetStream does not answer: clients give up after
/// 5 s, and are to be told before.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Who owns what, as this node sees and changes it; cheap to clone.
#[derive(Clone)]
pub struct Ownership(Arc<Inner>);

struct Inner {
    config: Config,
    link: Link,
    node: Box<str>,
    sessions: Bucket,
    nodes: Bucket,
    wills: Wills,
    lease: Lease,
    turns: Turns,
}

/// A connection that wants its device's session.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `P.D`.
    pub key: &'a Arc<str>,
    /// The connection; its epoch is not known yet.
    pub connection: &'a Connection,
    /// Whether it begins anew.
    pub clean_start: bool,
    /// How long the session outlives the connection, in seconds.
    pub expiry_s: u32,
    /// The Will.
    pub will: Option<&'a WillMessage>,
}

/// What was there before a claim.
#[derive(Debug)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// A session that goes on.
    Restored(Record),
    /// A session that is over.
    Discarded(Record),
}

/// What a claim gives.
pub enum Claim {
    /// The session, to be written from now on.
    Held(Held, Before),
    /// An earlier connection is owed something, and nobody else cares for it: then the claim is to be made again.
    Owed(Box<Orphan>),
}

impl Ownership {
    /// The owner `node`, this run of this gateway.
    #[must_use]
    pub fn new(config: Config, link: &Link, node: &str, wills: Wills) -> Self {
        let lease = config.lease();
        Self(Arc::new(Inner {
            config,
            link: link.clone(),
            node: node.into(),
            sessions: Bucket::new(link, SESSIONS),
            nodes: Bucket::new(link, NODES),
            wills,
            lease: Lease::new(lease),
            turns: Turns::default(),
        }))
    }

    pub(super) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(super) fn link(&self) -> &Link {
        &self.0.link
    }

    pub(super) fn node(&self) -> &str {
        &self.0.node
    }

    pub(super) fn sessions(&self) -> &Bucket {
        &self.0.sessions
    }

    pub(super) fn nodes(&self) -> &Bucket {
        &self.0.nodes
    }

    pub(super) fn wills(&self) -> &Wills {
        &self.0.wills
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.0.lease
    }

    /// Waits for NATS and for the lease, but no longer than a device is kept waiting; whether there is hope for a claim.
    pub async fn is_reachable(&self) -> bool {
        let certain = async {
            self.link().connected().await;
            // Others would take what is claimed without a lease.
            self.certain_term().await
        };
        timeout(ANSWER_MAX, certain).await.is_ok()
    }

    /// Returns when it is a connection's turn to claim its session. A caller that gives up leaves nothing behind.
    pub async fn turn(&self) -> Turn {
        self.0.turns.claim().await
    }

    /// Returns when it is a connection's turn to leave its session.
    pub async fn turn_to_leave(&self) -> Turn {
        self.0.turns.end().await
    }

    /// Takes the session for a connection; earlier connections of this node have left it before.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nobody may connect now. It may be claimed all the same, until [`Self::disclaim`] returns.
    pub async fn claim(
        &self,
        request: Request<'_>,
        turn: &mut Option<Turn>,
    ) -> Result<Claim, Error> {
        let mut entry = in_time(request.key, self.sessions().get(request.key)).await?;
        let mut asked = false;
        loop {
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let found = entry.as_ref().and_then(found);
            if let Some(holder) = found.as_ref().filter(|document| document.is_connected())
                && let Some(node) = holder.node.as_deref().filter(|node| *node != self.node())
                && !asked
            {
                asked = true;
                // Another node may take long to answer; whoever does not wait for one goes on meanwhile.
                *turn = None;
                if !release::ask(self, node, request.key, holder.epoch_at(revision)).await
                    && !self.is_gone(node).await?
                {
                    // What it knows and could not write yet would be lost, and what it is about to store come too late.
                    return Err(Error::Busy(node.into()));
                }
                entry = self.sessions().get_from_leader(request.key).await?;
                continue;
            }
            if let Some(document) = found.as_ref().filter(|found| request.leaves_owed(found)) {
                let mut document = document.clone();
                if document.is_connected() {
                    tracing::info!(
                        key = %request.key,
                        "a connection that does not answer is cut off"
                    );
                } else if !request.goes_on(&document) {
                    document.end_session(telemetry::now_unix_ms());
                }
                if let Some(orphan) = self.adopt(request.key, revision, document).await? {
                    return Ok(Claim::Owed(Box::new(orphan)));
                }
            } else if let Some(claim) = self
                .try_claim(&request, expectation(entry.as_ref()), found)
                .await?
            {
                return Ok(claim);
            }
            entry = self.sessions().get_from_leader(request.key).await?;
            asked = false;
        }
    }

    /// None: somebody wrote the key meanwhile.
    async fn try_claim(
        &self,
        request: &Request<'_>,
        expected: Expect,
        found: Option<Document>,
    ) -> Result<Option<Claim>, Error> {
        let before = Before::of(request, found);
        let term = self.term();
        let mut document = request.document(self.node(), &before);
        let written = self
            .sessions()
            .put(request.key, document.write(), expected, None);
        let revision = match in_time(request.key, written).await {
            Ok(revision) => revision,
            Err(bucket::Error::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        document.set_epoch(revision);
        // Whoever writes it next knows better.
        document.session = None;
        let held = Held {
            ownership: self.clone(),
            claimant: Arc::new(Claimant::new(request.key, revision, term)),
            revision,
            document: Box::new(document),
        };
        Ok(Some(Claim::Held(held, before)))
    }

    /// Makes sure that a failed claim holds nothing: neither now, nor by a write of it that is still on its way. Returns once
    /// that is certain.
    pub async fn disclaim(&self, key: &str, connection_id: &str) {
        loop {
            match self.try_disclaim(key, connection_id).await {
                Ok(_) => return,
                // Written by somebody, perhaps by that claim: what there is now?
                Err(bucket::Error::Conflict { .. }) => {}
                Err(error) => retry("failed claim", &error).await,
            }
        }
    }

    async fn try_disclaim(&self, key: &str, connection_id: &str) -> Result<u64, bucket::Error> {
        let now = telemetry::now_unix_ms();
        let entry = self.sessions().get_from_leader(key).await?;
        let expected = expectation(entry.as_ref());
        let revision = entry.as_ref().map_or(0, |entry| entry.revision);
        let Some(mut document) = entry.as_ref().and_then(found) else {
            return self.sessions().delete(key, expected, MARKER).await;
        };
        document.epoch = document.epoch_at(revision);
        if *document.connection.connection_id == *connection_id {
            document.will = None;
            document.node = None;
            document.disconnect(now);
        }
        // As it is, under a new revision: a write that expects the old one comes too late.
        let value = document.write();
        let is_kept = document.is_connected() || document.will.is_some();
        let left = Duration::from_secs(document.time_to_live_s(now));
        let left = (!is_kept).then_some(left);
        self.sessions().put(key, value, expected, left).await
    }

    /// Whether a connection of this node holds the key; returns once that is known.
    pub(super) async fn surely_holds(&self, key: &str, epoch: u64) -> bool {
        loop {
            match self.held_at(key, epoch).await {
                Ok(revision) => return revision.is_some(),
                Err(error) => retry("holder", &error).await,
            }
        }
    }

    /// At which revision a connection of this node holds the key, if it does.
    pub(super) async fn held_at(
        &self,
        key: &str,
        epoch: u64,
    ) -> Result<Option<u64>, bucket::Error> {
        let own = self.own(key, epoch).await?;
        Ok(own.map(|(revision, _)| revision))
    }

    /// What a connection of this node wrote last, and its revision; none if it does not hold the key.
    pub(super) async fn own(
        &self,
        key: &str,
        epoch: u64,
    ) -> Result<Option<(u64, Document)>, bucket::Error> {
        let entry = self.sessions().get_from_leader(key).await?;
        Ok(entry.and_then(|entry| self.own_in(&entry, epoch)))
    }

    /// The same of what was read.
    pub(super) fn own_in(&self, entry: &Entry, epoch: u64) -> Option<(u64, Document)> {
        let document = found(entry)?;
        let is_own = document.node.as_deref() == Some(self.node());
        let is_it = is_own && document.epoch_at(entry.revision) == epoch;
        is_it.then_some((entry.revision, document))
    }
}

impl Before {
    fn of(request: &Request<'_>, found: Option<Document>) -> Self {
        let Some(document) = found else {
            return Self::Nothing;
        };
        let goes_on = request.goes_on(&document);
        match document.session {
            None => Self::Nothing,
            Some(record) if goes_on => Self::Restored(*record),
            Some(record) => Self::Discarded(*record),
        }
    }
}

impl Request<'_> {
    /// Whether the session that is stored is the one of this connection.
    fn goes_on(&self, found: &Document) -> bool {
        !self.clean_start && !found.is_expired(telemetry::now_unix_ms())
    }

    /// Whether something must be said for the connection before, ahead of the claim: that it is over, or its Will. A Will
    /// that waits is given up if the session goes on [MQTT-3.1.3-9].
    fn leaves_owed(&self, found: &Document) -> bool {
        let due = found.will.as_ref().and_then(|will| will.due_ms);
        let is_due = due.is_some_and(|due| due <= telemetry::now_unix_ms() || !self.goes_on(found));
        found.is_connected() || is_due
    }

    /// What the key is to hold.
    fn document(&self, node: &str, before: &Before) -> Document {
        // Also a session in which nothing happened yet is there when its device comes back.
        let begun = || Record {
            id: self.connection.connection_id.clone(),
            ..Record::default()
        };
        Document {
            node: Some(node.into()),
            disconnected_at_ms: None,
            epoch: 0,
            connection: Arc::new(self.connection.clone()),
            expiry_s: self.expiry_s,
            will: self.will.map(|will| Box::new(WillDocument::new(will))),
            session: match before {
                Before::Restored(record) => Some(Box::new(record.clone())),
                Before::Nothing | Before::Discarded(_) => {
                    (self.expiry_s > 0).then(|| Box::new(begun()))
                }
            },
        }
    }
}

fn found(entry: &Entry) -> Option<Document> {
    entry.value.as_deref().and_then(Document::read)
}

fn expectation(entry: Option<&Entry>) -> Expect {
    entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision))
}

/// The answer, unless it takes longer than a client waits.
async fn in_time<T>(
    key: &str,
    answer: impl Future<Output = Result<T, bucket::Error>>,
) -> Result<T, bucket::Error> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let (subject, reason) = (key.to_owned(), "no answer in time".to_owned());
            Err(ReadError::Unanswered { subject, reason }.into())
        }
    }
}
