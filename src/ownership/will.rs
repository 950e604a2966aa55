//! The time of Wills that wait for their device: which key is due when. What is due is looked up again before anything happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::telemetry;

/// The Wills that this node is to publish later; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wills(Arc<Inner>);

/// Keys by when they are due, the earliest first.
type Due = BinaryHeap<Reverse<(u64, Arc<str>)>>;

#[derive(Debug, Default)]
struct Inner {
    due: Mutex<Due>,
    earlier: Notify,
}

impl Wills {
    /// `key` has a Will that is due at `due_ms`, Unix milliseconds.
    pub(super) fn schedule(&self, key: &Arc<str>, due_ms: u64) {
        self.lock().push(Reverse((due_ms, Arc::clone(key))));
        self.0.earlier.notify_one();
    }

    /// The next key that is due, once it is.
    pub(super) async fn next(&self) -> Arc<str> {
        loop {
            let now = telemetry::now_unix_ms();
            let next = match self.lock().peek() {
                Some(Reverse((due, _))) if *due <= now => None,
                Some(Reverse((due, _))) => Some(Duration::from_millis(due - now)),
                None => Some(Duration::MAX),
            };
            let Some(wait) = next else {
                if let Some(Reverse((_, key))) = self.lock().pop() {
                    return key;
                }
                continue;
            };
            // Whichever comes first; a timer that ran out looks again.
            drop(tokio::time::timeout(wait, self.0.earlier.notified()).await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.0.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
