//! What became of one sender's messages, counted in the order in which it sent them.
//!
//! One sender's messages go through one publisher shard and are finished in order, so "stored" is a counter:
//! no allocation, lock or future per message. Only refusals, which are rare, carry data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use super::Claimant;

/// Why a message was not stored, for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The stream or the account is full.
    #[error("the stream is full: {0}")]
    Full(String),
    /// Larger than the stream or server takes.
    #[error("the message is too large for the stream: {0}")]
    TooLarge(String),
    /// Another answer that names this message.
    #[error("the stream refused the message: {0}")]
    Refused(String),
    /// Another connection has the device; it may or may not be stored.
    #[error("another connection has the device")]
    Fenced,
    /// No clear answer within the retry budget; it may or may not be stored.
    #[error("the stream did not answer within the retry budget")]
    Unanswered,
}

impl Refusal {
    /// The server lets nobody with our credentials publish there.
    pub(super) fn denied(subject: &str) -> Self {
        Self::Refused(format!("publishing to {subject} is denied"))
    }
}

/// Shared between a sender and the publisher shard that finishes its messages.
#[derive(Debug, Default)]
pub struct Receipts {
    /// The connection that must still hold its device; none: whoever sends it again does so under the same ids.
    claimant: Option<Arc<Claimant>>,
    finished: AtomicU64,
    refused: Mutex<Vec<(u64, Refusal)>>,
    waker: AtomicWaker,
}

impl Receipts {
    /// The connection whose messages they are; none: they are no connection's, or of one that is over.
    #[must_use]
    pub fn claimant(&self) -> Option<&Arc<Claimant>> {
        self.claimant.as_ref()
    }

    /// What became of the messages of a connection.
    #[must_use]
    pub fn of(claimant: &Arc<Claimant>) -> Self {
        Self {
            claimant: Some(Arc::clone(claimant)),
            ..Self::default()
        }
    }

    /// Finishes the sender's next message; called by the shard, in the sender's order.
    pub(super) fn finish(&self, refusal: Option<Refusal>) {
        if let Some(refusal) = refusal {
            let number = self.finished.load(Ordering::Relaxed);
            self.refused
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((number, refusal));
        }
        self.finished.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }

    /// Ready once more than `seen` messages are finished; gives their number.
    pub fn poll_finished(&self, context: &Context<'_>, seen: u64) -> Poll<u64> {
        let finished = self.finished.load(Ordering::Acquire);
        if finished > seen {
            return Poll::Ready(finished);
        }
        self.waker.register(context.waker());
        match self.finished.load(Ordering::Acquire) {
            finished if finished > seen => Poll::Ready(finished),
            _ => Poll::Pending,
        }
    }

    /// Returns once so many messages are finished; gives their number.
    pub async fn finished(&self, count: u64) -> u64 {
        let Some(before) = count.checked_sub(1) else {
            return 0;
        };
        std::future::poll_fn(|context| self.poll_finished(context, before)).await
    }

    /// Takes the refusals among the finished messages: (number counted from 0, why).
    #[must_use]
    pub fn take_refused(&self) -> Vec<(u64, Refusal)> {
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
