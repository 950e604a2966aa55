//! Whether a connection may still publish what it handed over: its node may not have been heard for a while, and another one
//! may have its device by now. Stored after that, the message would stand behind those of the device's next connection.
//!
//! What is known is good for one *term*: as long as nobody can take a device from the node without its knowing. In a new term
//! each connection is confirmed before anything of it is sent again; in the usual case that is one comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;

/// The term of one that may publish nothing any more.
const LOST: u64 = 0;

/// A connection that publishes for its device.
#[derive(Debug)]
pub struct Claimant {
    /// Its device, `P.D`.
    pub key: Arc<str>,
    /// Its epoch.
    pub epoch: u64,
    /// The term in which it was confirmed last.
    term: AtomicU64,
}

impl Claimant {
    /// A connection that got its device in this term, or before any.
    #[must_use]
    pub fn new(key: &Arc<str>, epoch: u64, term: Option<u64>) -> Self {
        let never = LOST + 1;
        Self {
            key: Arc::clone(key),
            epoch,
            term: AtomicU64::new(term.unwrap_or(never)),
        }
    }

    /// Whether it is known in this term that it holds its device.
    #[must_use]
    pub fn is_confirmed(&self, term: u64) -> bool {
        self.term.load(Ordering::Relaxed) == term
    }

    /// Whether another connection has its device.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_confirmed(LOST)
    }

    /// It holds its device in this term.
    pub fn confirm(&self, term: u64) {
        // Lost is lost.
        let is_not_lost = |known| (known != LOST).then_some(term);
        let confirmed = &self.term;
        confirmed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_not_lost)
            .ok();
    }

    /// Another connection has its device.
    pub fn lose(&self) {
        self.term.store(LOST, Ordering::Relaxed);
    }
}

/// Who knows which connection holds its device.
pub trait Fence: Send + Sync {
    /// The term of now, from 2 on; none while the node is in doubt about itself.
    fn term(&self) -> Option<u64>;

    /// Returns once there may be a term.
    fn renewed(&self) -> BoxFuture<'_, ()>;

    /// Returns once it is known of each whether it holds its device, confirmed in the term that there is then, or has lost it.
    fn confirm_all<'a>(&'a self, claimants: &'a [Arc<Claimant>]) -> BoxFuture<'a, ()>;
}

/// Confirms connections, each once; returns when that is done.
pub(super) async fn confirm(fence: &dyn Fence, mut claimants: Vec<Arc<Claimant>>) {
    claimants.sort_unstable_by_key(Arc::as_ptr);
    claimants.dedup_by(|one, other| Arc::ptr_eq(one, other));
    fence.confirm_all(&claimants).await;
}
