//! Who has a share: the nodes with members, and the sessions that are stored and keep it while their devices are away. And the
//! consumer that they use.
//!
//! Each is a mark in the bucket of sessions, `<share>.%node.<node>` or `<share>.P.D` beside the session's own key `P.D`. A share
//! without any is over. A session that ended by its expiry leaves its mark behind, so the session counts, not the mark; a node
//! that died leaves its marks until another one has found it lost (`ownership::lease`). The key `<share>` holds the name of
//! the consumer, by compare-and-set: no two have one name, so what one node deletes is never what another one just made.

use std::time::Duration;

use bytes::Bytes;

use crate::device::DeviceId;
use crate::jetstream::Link;
use crate::jetstream::bucket::{Bucket, Error, Expect, NODE_MARK};
use crate::mapping::Mapping;

const SESSIONS: &str = "jetway_sessions";
/// Nobody asks when a mark was taken away.
const MARKER_TTL: Duration = Duration::from_secs(1);

/// The consumer that a share has now.
pub(super) struct Current {
    pub(super) consumer: Option<String>,
    expected: Expect,
}

/// The holders of one share, as one node sees them.
pub(super) struct Holders {
    sessions: Bucket,
    share: Box<str>,
    /// What marks this node.
    node: String,
}

impl Holders {
    /// Of the share whose consumer has this name, seen by this node.
    pub(super) fn new(link: &Link, share: &str, node: &str) -> Self {
        Self {
            sessions: Bucket::new(link, SESSIONS),
            share: share.into(),
            node: format!("{share}.{NODE_MARK}.{node}"),
        }
    }

    pub(super) async fn add_node(&self) -> Result<(), Error> {
        self.set(&self.node).await
    }

    pub(super) async fn remove_node(&self) -> Result<(), Error> {
        self.clear(&self.node).await
    }

    pub(super) async fn add_session(&self, device: &DeviceId) -> Result<(), Error> {
        self.set(&self.session(device)).await
    }

    pub(super) async fn remove_session(&self, device: &DeviceId) -> Result<(), Error> {
        self.clear(&self.session(device)).await
    }

    /// Whether a session or another node has the share.
    pub(super) async fn are_there(&self) -> Result<bool, Error> {
        let all = format!("{}.>", self.share);
        let mut from = 1;
        while let Some((key, mark)) = self.sessions.next_from_leader(&all, from).await? {
            from = mark.revision + 1;
            if mark.value.is_none() || key == self.node {
                continue;
            }
            let (_share, holder) = key.split_once('.').unwrap_or_default();
            if holder.starts_with(NODE_MARK) || self.is_stored(holder).await? {
                return Ok(true);
            }
            self.clear(&key).await?;
        }
        Ok(false)
    }

    /// The consumer of the share; none if it is over.
    pub(super) async fn current(&self) -> Result<Current, Error> {
        let entry = self.sessions.get_from_leader(&self.share).await?;
        let expected = entry.as_ref().map(|entry| entry.revision);
        let name = entry.and_then(|entry| entry.value);
        Ok(Current {
            consumer: name.map(|name| String::from_utf8_lossy(&name).into_owned()),
            expected: expected.map_or(Expect::Absent, Expect::Revision),
        })
    }

    /// Makes the share use another consumer; gives false if another node was faster.
    pub(super) async fn replace(&self, current: &Current, consumer: &str) -> Result<bool, Error> {
        let name = Bytes::copy_from_slice(consumer.as_bytes());
        let put = self.sessions.put(&self.share, name, current.expected, None);
        unless_conflict(put.await)
    }

    /// Makes the share have no consumer; gives false if it has another one now.
    pub(super) async fn end(&self, current: &Current) -> Result<bool, Error> {
        let share = &self.share;
        let delete = self.sessions.delete(share, current.expected, MARKER_TTL);
        unless_conflict(delete.await)
    }

    /// Whether there is a session under the key `P.D`.
    async fn is_stored(&self, key: &str) -> Result<bool, Error> {
        let session = self.sessions.get_from_leader(key).await?;
        Ok(session.is_some_and(|session| session.value.is_some()))
    }

    fn session(&self, device: &DeviceId) -> String {
        format!("{}.{}", self.share, Mapping::device_tokens(device))
    }

    async fn set(&self, key: &str) -> Result<(), Error> {
        let mark = self.sessions.put(key, Bytes::new(), Expect::Any, None);
        mark.await.map(drop)
    }

    async fn clear(&self, key: &str) -> Result<(), Error> {
        let marker = self.sessions.delete(key, Expect::Any, MARKER_TTL);
        marker.await.map(drop)
    }
}

fn unless_conflict(written: Result<u64, Error>) -> Result<bool, Error> {
    match written {
        Ok(_revision) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
