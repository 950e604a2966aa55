//! Taking turns: how many sessions are claimed at the same time, and how many are left.
//!
//! Of a storm of connects or ends only so many requests are under way at once. The others wait here, first come first served,
//! where nothing times out: thousands of requests in front of the server would all be answered late, those of connected devices
//! as well, and asked again before they are. Claims and ends do not wait for each other's turns, because a claim may wait for an end.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Enough to keep NATS busy; their requests take it some milliseconds.
const AT_ONCE: usize = 128;

/// Until it is dropped, one of those whose turn it is.
pub struct Turn(
    #[expect(dead_code, reason = "it counts until it is dropped")] Option<OwnedSemaphorePermit>,
);

/// The turns of one node.
pub(super) struct Turns {
    claims: Arc<Semaphore>,
    ends: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let turns = || Arc::new(Semaphore::new(AT_ONCE));
        Self {
            claims: turns(),
            ends: turns(),
        }
    }
}

impl Turns {
    /// Returns when a session may be claimed.
    pub(super) async fn claim(&self) -> Turn {
        turn(&self.claims).await
    }

    /// Returns when a session may be left.
    pub(super) async fn end(&self) -> Turn {
        turn(&self.ends).await
    }
}

/// Nobody closes a semaphore here, so there is always a permit.
async fn turn(turns: &Arc<Semaphore>) -> Turn {
    Turn(Arc::clone(turns).acquire_owned().await.ok())
}
