//! A commit wakes the relay of its process; PostgreSQL tells the others itself.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes the relay of this process; cheap to clone, and to call with no relay there.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// To be called behind the commit of a transaction that has written events.
    pub fn wake(&self) {
        self.0.notify_one();
    }

    /// Returns when it was called since the last time.
    pub async fn woken(&self) {
        self.0.notified().await;
    }
}
