//! Which node tells what concerns all nodes: the holder of a lease. What it has told is kept beside it for the next one.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::alarm::Alarm;
use crate::jetstream::Link;
use crate::jetstream::bucket::{self, Bucket, Expect};

/// The lease, in the bucket of nodes, whose keys have one token.
const LEASE: &str = "alarm.teller";
/// How many rounds it outlives its holder, and how long at least: a round may take its time.
const LEASE_ROUNDS: u32 = 3;
const LEASE_MIN: Duration = Duration::from_secs(15);
/// How long a write may hold up a round of looking.
const WRITE_WITHIN: Duration = Duration::from_secs(2);

/// This node's claim to tell.
pub(super) struct Turn {
    link: Link,
    nodes: Bucket,
    node: String,
    lease: Duration,
    /// The lease's revision while this node has it.
    held: Option<u64>,
}

impl Turn {
    /// The claim of a node that takes it every `interval`.
    pub(super) fn new(link: &Link, nodes: &Bucket, node: &str, interval: Duration) -> Self {
        Self {
            link: link.clone(),
            nodes: nodes.clone(),
            node: node.to_owned(),
            lease: (interval * LEASE_ROUNDS).max(LEASE_MIN),
            held: None,
        }
    }

    /// Takes or renews the lease; whether this node has it. Called in every round, more often than the lease lasts.
    pub(super) async fn take(&mut self) -> bool {
        if !self.link.is_connected() {
            self.held = None;
            return false;
        }
        let written = timeout(WRITE_WITHIN, self.write());
        self.held = match written.await {
            Ok(Ok(revision)) => revision,
            Ok(Err(error)) => {
                tracing::debug!(%error, "lease of the alarms not held");
                None
            }
            Err(_elapsed) => None,
        };
        self.held.is_some()
    }

    /// Gives the lease up, so that another node tells at once; without an answer it runs out.
    pub(super) async fn give_up(&mut self) {
        if let Some(revision) = self.held.take() {
            let expected = Expect::Revision(revision);
            let deleted = self.nodes.delete(LEASE, expected, self.lease);
            if !matches!(timeout(WRITE_WITHIN, deleted).await, Ok(Ok(_))) {
                tracing::info!("lease of the alarms not given up; it runs out");
            }
        }
    }

    /// None: another node has it.
    async fn write(&self) -> Result<Option<u64>, bucket::Error> {
        let own = |value: &Bytes| **value == *self.node.as_bytes();
        let expected = match self.held {
            Some(revision) => Expect::Revision(revision),
            None => match self.nodes.get_from_leader(LEASE).await? {
                None => Expect::Absent,
                Some(entry) if entry.value.as_ref().is_none_or(own) => {
                    Expect::Revision(entry.revision)
                }
                Some(_) => return Ok(None),
            },
        };
        let node = Bytes::copy_from_slice(self.node.as_bytes());
        let written = self.nodes.put(LEASE, node, expected, Some(self.lease));
        Ok(Some(written.await?))
    }
}

/// What a receiver has been told for all nodes, across nodes and restarts.
#[derive(Clone)]
pub(super) struct Memory {
    nodes: Bucket,
    key: String,
}

impl Memory {
    pub(super) fn new(nodes: &Bucket, receiver: &str) -> Self {
        Self {
            nodes: nodes.clone(),
            key: format!("alarm.told.{receiver}"),
        }
    }

    /// What was told; unreadable means nothing, and at worst it is told again.
    pub(super) async fn read(&self) -> Result<Vec<Alarm>, bucket::Error> {
        let entry = self.nodes.get_from_leader(&self.key).await?;
        let value = entry.and_then(|entry| entry.value).unwrap_or_default();
        Ok(serde_json::from_slice(&value).unwrap_or_default())
    }

    /// Keeps what was told.
    pub(super) async fn write(&self, told: &[&Alarm]) -> Result<(), bucket::Error> {
        // Texts and numbers always serialise.
        let value = serde_json::to_vec(told).unwrap_or_default();
        let written = self.nodes.put(&self.key, value.into(), Expect::Any, None);
        written.await.map(drop)
    }
}
