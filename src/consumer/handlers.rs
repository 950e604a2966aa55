//! What a service does with which event: handlers by event name and version.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Event, Transaction};

/// What a service does with the events of one name and version.
///
/// An event may come more than once, in another replica too: what the handler writes through `transaction` is done once all
/// the same; what it does elsewhere has to bear repetition, as the same with the same `event_id`.
pub trait Handle: Send + Sync + 'static {
    /// Handles one event. It need not commit: that happens when it is done, together with the event's row in the inbox.
    ///
    /// # Errors
    /// [`Failure`]: nothing of the transaction is kept.
    fn handle(
        &self,
        event: &Event,
        transaction: &mut Transaction,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why an event was not handled. Every error becomes [`Failure::Retry`] by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It may go well later: the event climbs the ladder, and is a dead letter after its last try.
    Retry(String),
    /// It will never go well: the event is a dead letter now, with this reason.
    Poison(String),
}

// Like `anyhow::Error` it is itself no `Error`, which would forbid this.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Retry(text)
    }
}

pub(super) type Handler = Box<
    dyn for<'a> Fn(&'a Event, &'a mut Transaction) -> BoxFuture<'a, Result<(), Failure>>
        + Send
        + Sync,
>;

/// Handlers by event name, then version.
#[derive(Default)]
pub(super) struct Handlers(HashMap<Box<str>, HashMap<Box<str>, Handler>>);

impl Handlers {
    pub(super) fn add(&mut self, name: &str, version: &str, handle: impl Handle) {
        let handle = Arc::new(handle);
        let handler: Handler = Box::new(move |event, transaction| {
            let handle = Arc::clone(&handle);
            Box::pin(async move { handle.handle(event, transaction).await })
        });
        let versions = self.0.entry(name.into()).or_default();
        versions.insert(version.into(), handler);
    }

    pub(super) fn find(&self, name: &str, version: &str) -> Option<&Handler> {
        self.0.get(name)?.get(version)
    }
}
