//! The only place that spawns tasks: each has a name, and says what its end or panic means for the process.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the end of a task means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// One of many, or one that may end: only a panic is worth a line.
    Log,
    /// The process cannot do its work without it: an end that nobody asked for starts the drain.
    Shutdown,
}

/// A group of tasks that is waited for together.
#[derive(Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    failed: Arc<AtomicBool>,
}

impl Tasks {
    /// A group that asks for shutdown through `shutdown` when an essential task ends.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            shutdown,
            failed: Arc::default(),
        }
    }

    /// A second group with the same shutdown, waited for on its own.
    #[must_use]
    pub fn group(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            shutdown: self.shutdown.clone(),
            failed: Arc::clone(&self.failed),
        }
    }

    /// Runs `task` under `name`.
    pub fn spawn<F>(&self, name: &'static str, on_exit: OnExit, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        let failed = Arc::clone(&self.failed);
        // Combinators, because an async block keeps room twice for a future that it is given and awaits.
        let run = AssertUnwindSafe(task).catch_unwind().map(move |ended| {
            if ended.is_err() {
                tracing::error!(task = name, "task panicked");
            }
            if on_exit == OnExit::Shutdown && !shutdown.is_cancelled() {
                tracing::error!(task = name, "essential task ended, shutting down");
                failed.store(true, Ordering::Relaxed);
                shutdown.cancel();
            }
        });
        drop(self.tracker.spawn(run));
    }

    /// Whether an essential task ended that nobody had asked to end.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many run now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether none runs now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Returns once every task of this group has ended.
    pub async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
