//! A broker in this process: for tests, and for services that are one process.
//!
//! Nothing is left when the process ends. A stream holds so many messages; the oldest one makes room once every durable is done with it, and
//! until then the stream takes nothing. Everything else is as with JetStream: ids, wildcards, ladders, dead letters.

mod log;
mod puller;

pub use puller::Puller;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use super::{DeadLetter, Layout};
use crate::delivery::Redelivery;
use log::Log;

/// The broker; cheap to clone, all clones are one.
#[derive(Clone, Default)]
pub struct Broker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    logs: Mutex<HashMap<Arc<str>, Log>>,
    /// Something may be there for who found nothing.
    changed: Notify,
}

impl Broker {
    /// The one of this process, which a configuration can name.
    #[must_use]
    pub fn of_process() -> Self {
        static BROKER: OnceLock<Broker> = OnceLock::new();
        BROKER.get_or_init(Self::default).clone()
    }

    /// Makes what is not there yet, with room for so many messages in each stream; what is there stays as it is.
    pub fn provision(&self, layout: &Layout, messages_max: usize) {
        let mut logs = self.0.logs();
        for stream in &layout.streams {
            let log = || Log::new(stream.clone(), messages_max);
            logs.entry(Arc::clone(&stream.name)).or_insert_with(log);
        }
        for durable in &layout.durables {
            if let Some(log) = logs.get_mut(&durable.stream) {
                log.add(durable);
            }
        }
    }

    /// A puller of this durable, one of perhaps many, and how it redelivers; none if there is no such durable.
    #[must_use]
    pub fn bind(&self, stream: &str, durable: &str) -> Option<(Puller, Redelivery)> {
        let redelivery = self.0.logs().get(stream)?.redelivery(durable)?;
        Some((Puller::new(self, stream, durable), redelivery))
    }

    /// What a durable gave up, oldest first; as many as its stream has room for.
    #[must_use]
    pub fn dead_letters(&self, stream: &str, durable: &str) -> Vec<DeadLetter> {
        let logs = self.0.logs();
        logs.get(stream)
            .map_or_else(Vec::new, |log| log.dead_letters(durable))
    }
}

impl Shared {
    /// What a panic left behind is whole: no step of a log stops in its middle.
    fn logs(&self) -> MutexGuard<'_, HashMap<Arc<str>, Log>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
