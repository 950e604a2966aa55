//! What a connection may still publish, although other nodes may have thought this one lost: what it may still write.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::Ownership;
use super::held::retry;
use crate::jetstream::bucket::{self, Expect};
use crate::jetstream::{Claimant, Fence};

impl Fence for Ownership {
    fn term(&self) -> Option<u64> {
        self.lease().term(self.link().connects())
    }

    fn renewed(&self) -> BoxFuture<'_, ()> {
        self.lease().renewed().boxed()
    }

    fn confirms<'a>(&'a self, claimant: &'a Claimant) -> BoxFuture<'a, bool> {
        self.confirm(claimant).boxed()
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

    /// Whether the connection holds its device, confirmed in the term that there is then; returns once that is known.
    pub async fn confirm(&self, claimant: &Claimant) -> bool {
        loop {
            let term = self.certain_term().await;
            if claimant.is_lost() {
                return false;
            }
            if claimant.is_confirmed(term) {
                return true;
            }
            match self.touch(&claimant.key, claimant.epoch).await {
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
    async fn touch(&self, key: &str, epoch: u64) -> Result<bool, bucket::Error> {
        loop {
            let Some((revision, mut document)) = self.own(key, epoch).await? else {
                return Ok(false);
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
