//! What a connection may still publish, although other nodes may have thought this one lost: what it may still write.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

use super::Ownership;
use super::held::retry;
use crate::jetstream::bucket::{self, Entry, Expect};
use crate::jetstream::{Claimant, Fence};

/// How many sessions are written at once.
const WRITTEN_AT_ONCE: usize = 256;

impl Fence for Ownership {
    fn term(&self) -> Option<u64> {
        self.lease().term(self.link().connects())
    }

    fn renewed(&self) -> BoxFuture<'_, ()> {
        self.lease().renewed().boxed()
    }

    fn confirm_all<'a>(&'a self, claimants: &'a [Arc<Claimant>]) -> BoxFuture<'a, ()> {
        self.confirm_each(claimants).boxed()
    }
}

impl Ownership {
    /// Returns once the node is not in doubt about itself, with the term.
    pub(super) async fn certain_term(&self) -> u64 {
        loop {
            let renewed = self.lease().renewed();
            if let Some(term) = self.term() {
                return term;
            }
            renewed.await;
        }
    }

    /// Confirms connections, whose sessions are read together: after an outage that is all of them at once.
    async fn confirm_each(&self, claimants: &[Arc<Claimant>]) {
        let keys: Vec<&str> = claimants.iter().map(|claimant| &*claimant.key).collect();
        // Without them each is read by itself.
        let mut read = self.sessions().get_all(&keys).await.unwrap_or_default();
        let claimants = claimants.iter().map(|claimant| {
            let entry = read.remove(&*claimant.key);
            (claimant, entry)
        });
        stream::iter(claimants.collect::<Vec<_>>())
            .for_each_concurrent(WRITTEN_AT_ONCE, async |(claimant, entry)| {
                self.confirm_read(claimant, entry).await;
            })
            .await;
    }

    /// Whether the connection holds its device, confirmed in the term that there is then; returns once that is known.
    pub async fn confirm(&self, claimant: &Claimant) -> bool {
        self.confirm_read(claimant, None).await
    }

    /// The same; `read` is what was read of its session, perhaps from a replica that lags behind.
    async fn confirm_read(&self, claimant: &Claimant, mut read: Option<Entry>) -> bool {
        loop {
            let term = self.certain_term().await;
            if claimant.is_lost() {
                return false;
            }
            if claimant.is_confirmed(term) {
                return true;
            }
            match self.touch(&claimant.key, claimant.epoch, read.take()).await {
                // In another term it may have been taken since.
                Ok(true) if self.term() == Some(term) => claimant.confirm(term),
                Ok(true) => {}
                Ok(false) => claimant.lose(),
                Err(error) => retry("holder", &error).await,
            }
        }
    }

    /// Writes for a connection as long as it holds its device, again if the NATS connection was lost meanwhile; returns once it is
    /// done, or the device is another connection's.
    pub async fn write_for<W: Future<Output = ()>>(
        &self,
        claimant: &Claimant,
        write: impl Fn() -> W,
    ) {
        let mut link = self.link().state.clone();
        loop {
            self.link().connected().await;
            link.mark_unchanged();
            if !self.confirm(claimant).await {
                return;
            }
            tokio::select! {
                () = write() => return,
                Ok(()) = link.changed() => {}
            }
        }
    }

    /// Writes the session of a connection once more as it is, if that still holds it: who thought the node lost, and is about
    /// to take it, does so in vain.
    async fn touch(
        &self,
        key: &str,
        epoch: u64,
        read: Option<Entry>,
    ) -> Result<bool, bucket::Error> {
        let mut own = read.and_then(|entry| self.own_in(&entry, epoch));
        loop {
            let (revision, mut document) = match own.take() {
                Some(own) => own,
                None => match self.own(key, epoch).await? {
                    Some(own) => own,
                    None => return Ok(false),
                },
            };
            document.set_epoch(epoch);
            let expected = Expect::Revision(revision);
            let written = self.sessions().put(key, document.write(), expected, None);
            match written.await {
                Ok(_) => return Ok(true),
                // Perhaps by the connection itself.
                Err(bucket::Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
