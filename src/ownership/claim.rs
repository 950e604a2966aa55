//! Taking a device's session: compare-and-set against whoever holds it, here or on another node.
//!
//! Connections of one device on this node take turns in the registry and never meet here; another node's is asked to let
//! go, and if it stays silent it is fenced by the write itself.

use std::sync::Arc;

use super::document::{ConnectionDocument, Document};
use super::held::Held;
use super::{Config, Error, NODES, SESSIONS, WillMessage, Wills, release};
use crate::device::Connection;
use crate::jetstream::Link;
use crate::jetstream::bucket::{self, Bucket, Entry, Expect};
use crate::mqtt::Publish;
use crate::session::Record;
use crate::telemetry;

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
}

/// A connection that wants its device's session.
#[derive(Debug)]
pub struct Request<'a> {
    /// `P.D`.
    pub key: &'a str,
    /// The connection; its epoch is not known yet.
    pub connection: &'a Connection,
    /// Whether it begins anew.
    pub clean_start: bool,
    /// How long the session outlives the connection, in seconds.
    pub expiry_s: u32,
    /// The Will.
    pub will: Option<&'a WillMessage>,
}

/// What a claim gives.
pub struct Claimed {
    /// The session, to be written from now on.
    pub held: Held,
    /// The session state that goes on; none: it begins.
    pub restored: Option<Record>,
    /// A connection that was cut off by this claim without saying so itself.
    pub fenced: Option<Fenced>,
    /// The Will of an earlier connection, whose session this claim ended or whose time is over.
    pub will: Option<(Connection, Publish)>,
}

/// A connection that can say nothing any more.
#[derive(Debug)]
pub struct Fenced {
    /// Which.
    pub connection: Connection,
}

impl Ownership {
    /// The owner `node`, this run of this gateway.
    #[must_use]
    pub fn new(config: Config, link: &Link, node: &str, wills: Wills) -> Self {
        Self(Arc::new(Inner {
            config,
            link: link.clone(),
            node: node.into(),
            sessions: Bucket::new(link, SESSIONS),
            nodes: Bucket::new(link, NODES),
            wills,
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

    /// Takes the session for a connection; earlier connections of this node have left it before.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nobody may connect now.
    pub async fn claim(&self, request: Request<'_>) -> Result<Claimed, Error> {
        let mut entry = self.sessions().get(request.key).await?;
        let mut asked = false;
        loop {
            let found = entry.as_ref().and_then(found);
            let holder = found.as_ref().filter(|document| document.is_connected());
            let other = holder
                .and_then(|document| document.node.as_deref())
                .filter(|node| *node != self.node());
            if let (Some(node), false) = (other, asked) {
                asked = true;
                release::ask(self, node, request.key).await;
                entry = self.sessions().get_from_leader(request.key).await?;
                continue;
            }
            let expected = entry.as_ref().map_or(Expect::Absent, |entry| {
                Expect::Revision(entry.revision)
            });
            let previous = found.map(|document| Previous {
                epoch: match document.epoch {
                    0 => entry.as_ref().map_or(0, |entry| entry.revision),
                    epoch => epoch,
                },
                document,
            });
            let (document, claimed) = self.decide(&request, previous);
            let written = self
                .sessions()
                .put(request.key, document.write(), expected, None)
                .await;
            match written {
                Ok(revision) => return Ok(claimed.into_claimed(self, &request, revision, document)),
                Err(bucket::Error::Conflict { .. }) => {
                    entry = self.sessions().get_from_leader(request.key).await?;
                    asked = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What the key is to hold, and what becomes of what it held.
    fn decide(&self, request: &Request<'_>, previous: Option<Previous>) -> (Document, Decision) {
        let now = telemetry::now_unix_ms();
        let mut decision = Decision::default();
        if let Some(Previous { mut document, epoch }) = previous {
            let fenced = document.is_connected();
            if fenced {
                document.disconnect(now);
            }
            let goes_on = !request.clean_start && !document.is_expired(now);
            // A session that is over takes its Will along; one that goes on gives up a Will that still waited.
            let will = match goes_on {
                true => document.take_due_will(now),
                false => document.will.take().and_then(|will| will.publish()),
            };
            decision.restored = document.session.take().filter(|_| goes_on);
            if let Ok(connection) = document.connection.connection(epoch) {
                decision.will = will.map(|will| (connection.clone(), will));
                decision.fenced = fenced.then_some(Fenced { connection });
            }
        }
        let document = Document {
            node: Some(self.node().into()),
            disconnected_at_ms: None,
            epoch: 0,
            connection: ConnectionDocument::from(request.connection),
            expiry_s: request.expiry_s,
            will: Held::will_document(request.will),
            session: decision.restored.clone(),
        };
        (document, decision)
    }
}

/// What a key held, and the epoch of its connection.
struct Previous {
    document: Document,
    epoch: u64,
}

/// What becomes of it.
#[derive(Default)]
struct Decision {
    restored: Option<Record>,
    fenced: Option<Fenced>,
    will: Option<(Connection, Publish)>,
}

impl Decision {
    fn into_claimed(
        self,
        ownership: &Ownership,
        request: &Request<'_>,
        revision: u64,
        mut document: Document,
    ) -> Claimed {
        document.epoch = revision;
        Claimed {
            held: Held {
                ownership: ownership.clone(),
                key: request.key.into(),
                revision,
                document,
            },
            restored: self.restored,
            fenced: self.fenced,
            will: self.will,
        }
    }
}

fn found(entry: &Entry) -> Option<Document> {
    entry.value.as_deref().and_then(Document::read)
}
