//! Which worker has a shard: a key that its holder renews, gone when it does not.
//!
//! It keeps idle workers from reading in vain, no more: that nothing is stored twice is the doing of the worker's cursor.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::bucket::{self, Bucket, Expect};

/// How often somebody else's lease is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long giving it up may take.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// The lease of one shard.
pub struct Lease {
    nodes: Bucket,
    node: Box<str>,
    key: String,
    lasts: Duration,
    /// The last renewal, if it is known.
    revision: Option<u64>,
}

impl Lease {
    /// That of the shard with this key, for this node: `lasts` is how long one that is not renewed keeps others waiting, full
    /// seconds. Those of the nodes themselves have one token, so `key` has two: `<who>.<shard>`.
    #[must_use]
    pub fn new(nodes: &Bucket, node: &str, key: String, lasts: Duration) -> Self {
        Self {
            nodes: nodes.clone(),
            node: node.into(),
            key,
            lasts,
            revision: None,
        }
    }

    /// Returns when this node has it, for a whole time from now on.
    pub async fn take(&mut self) {
        loop {
            match self.write().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, key = self.key, "lease not taken"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews it; returns when another node has it.
    pub async fn lost(&mut self) {
        loop {
            sleep(self.lasts / 3).await;
            match self.write().await {
                Ok(true) => {}
                Ok(false) => return,
                // As long as nobody can write it nobody else can take it; and if somebody could, the cursor decides.
                Err(error) => tracing::debug!(%error, key = self.key, "lease not renewed"),
            }
        }
    }

    /// Gives it up, so that the next one need not wait.
    pub async fn release(&mut self) {
        self.revision = None;
        let give_up = async {
            match self.nodes.get_from_leader(&self.key).await {
                Ok(Some(entry)) if self.is_own(entry.value.as_ref()) => {
                    let expected = Expect::Revision(entry.revision);
                    drop(self.nodes.delete(&self.key, expected, self.lasts).await);
                }
                _ => {}
            }
        };
        drop(timeout(RELEASE_MAX, give_up).await);
    }

    fn is_own(&self, value: Option<&Bytes>) -> bool {
        value.is_some_and(|value| **value == *self.node.as_bytes())
    }

    /// Takes or renews it: whether this node has it now.
    async fn write(&mut self) -> Result<bool, bucket::Error> {
        let expected = match self.revision.take() {
            Some(revision) => Expect::Revision(revision),
            None => match self.nodes.get_from_leader(&self.key).await? {
                None => Expect::Absent,
                Some(entry) if entry.value.is_none() || self.is_own(entry.value.as_ref()) => {
                    Expect::Revision(entry.revision)
                }
                Some(_) => return Ok(false),
            },
        };
        let node = Bytes::copy_from_slice(self.node.as_bytes());
        let put = self.nodes.put(&self.key, node, expected, Some(self.lasts));
        match put.await {
            Ok(revision) => {
                self.revision = Some(revision);
                Ok(true)
            }
            Err(bucket::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
