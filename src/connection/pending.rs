//! What is read back from JetStream for one device, and what somebody waits to know of its downlinks: the state of `outbound`.
//!
//! An idle device has none of it, and it takes the room of a pointer then. Reading goes on until it is read: as long as JetStream
//! cannot be asked, the device waits.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use super::reading::{Page, Reading};
use crate::downlink::{self, Delivery};
use crate::jetstream::{ReadError, Stored};
use crate::mapping::Downlink;
use crate::message::Subject;
use crate::mqtt::{PacketId, TopicFilter};
use crate::session::Source;

/// How long until what could not be read is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Something to be read from JetStream.
pub(super) enum Job {
    /// What the device had not acknowledged when its last connection ended.
    Resend(Vec<(PacketId, Source)>),
    /// What was stored while nobody listened for the device.
    Backlog(Box<Reading>),
    /// The retained messages of a new subscription.
    Retained(TopicFilter, Vec<Subject>),
}

/// What was read.
pub(super) enum Fetched {
    Resend(Vec<(PacketId, Option<Arc<Downlink>>)>),
    /// A page, and the rest.
    Page(Page, Box<Reading>),
    Retained(TopicFilter, Vec<Arc<Downlink>>),
}

type Fetching = Pin<Box<dyn Future<Output = Fetched> + Send>>;

#[derive(Default)]
pub(super) struct Outbound {
    /// Handed over with QoS 0, and not written yet.
    pub(super) handing: Option<u64>,
    /// None for a device that is idle, which is most of them.
    pub(super) pending: Option<Box<Pending>>,
}

/// What is between the stream and the session.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) jobs: VecDeque<Job>,
    fetching: Option<Fetching>,
    /// Read back, and not handed to the session yet.
    pub(super) read_back: VecDeque<Delivery>,
    /// What somebody wants to know the end of, by stream sequence.
    pub(super) watched: HashMap<u64, Delivery>,
    /// Of an earlier connection, with PUBREC: never read again, so who wants to know of them is not known.
    pub(super) released: Vec<u64>,
}

impl Pending {
    fn is_read(&self) -> bool {
        self.fetching.is_none() && self.read_back.is_empty() && self.jobs.is_empty()
    }

    fn is_over(&self) -> bool {
        self.is_read() && self.watched.is_empty() && self.released.is_empty()
    }

    /// One at a time, and a backlog's next page only when the last one is handed over.
    fn start(&mut self, shared: &Arc<Shared>) {
        if self.fetching.is_some() {
            return;
        }
        let is_empty = self.read_back.is_empty();
        // Retained messages wait for nothing: the session takes nothing else before it has those it asked for.
        let next = (self.jobs.iter()).position(|job| is_empty || matches!(job, Job::Retained(..)));
        let job = next.and_then(|next| self.jobs.remove(next));
        self.fetching = job.map(|job| -> Fetching { Box::pin(fetch(Arc::clone(shared), job)) });
    }
}

impl Outbound {
    /// Whether nothing is left to be read back.
    pub(super) fn is_idle(&self) -> bool {
        self.pending
            .as_ref()
            .is_none_or(|pending| pending.is_read())
    }

    pub(super) fn poll_fetched(&mut self, context: &mut Context<'_>) -> Poll<Fetched> {
        let fetching = self.pending.as_mut().map(|pending| &mut pending.fetching);
        let Some(place @ Some(_)) = fetching else {
            return Poll::Pending;
        };
        let fetching = place
            .as_mut()
            .map(|fetching| fetching.as_mut().poll(context));
        let Some(Poll::Ready(fetched)) = fetching else {
            return Poll::Pending;
        };
        *place = None;
        Poll::Ready(fetched)
    }

    pub(super) fn pending(&mut self) -> &mut Pending {
        self.pending.get_or_insert_default()
    }

    /// The stream was replaced: what they were of is gone.
    pub(super) fn forget_sequences(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.watched.clear();
            pending.released.clear();
        }
        self.handing = None;
    }

    pub(super) fn add(&mut self, shared: &Arc<Shared>, job: Job) {
        self.pending().jobs.push_back(job);
        self.start(shared);
    }

    pub(super) fn start(&mut self, shared: &Arc<Shared>) {
        if let Some(pending) = &mut self.pending {
            pending.start(shared);
        }
        self.pending.take_if(|pending| pending.is_over());
    }

    pub(super) fn watched(&self, sequence: u64) -> Option<&Delivery> {
        self.pending.as_ref()?.watched.get(&sequence)
    }

    pub(super) fn take_watched(&mut self, sequence: u64) -> Option<Delivery> {
        self.pending.as_mut()?.watched.remove(&sequence)
    }

    /// Whether it was released on an earlier connection; it is said once.
    pub(super) fn take_released(&mut self, sequence: u64) -> bool {
        let released = self.pending.as_mut().map(|pending| &mut pending.released);
        released.is_some_and(|released| {
            let place = released.iter().position(|known| *known == sequence);
            place.map(|place| released.swap_remove(place)).is_some()
        })
    }
}

/// Reads until it is read: as long as JetStream cannot be asked, the device waits.
async fn fetch(shared: Arc<Shared>, job: Job) -> Fetched {
    match job {
        Job::Resend(wanted) => {
            let mut found = Vec::with_capacity(wanted.len());
            for (packet_id, source) in wanted {
                found.push((packet_id, read_again(&shared, &source).await));
            }
            Fetched::Resend(found)
        }
        Job::Backlog(mut reading) => loop {
            match reading.next_page().await {
                Ok(page) => return Fetched::Page(page, reading),
                Err(error) => retry("backlog", &error).await,
            }
        },
        Job::Retained(filter, filters) => loop {
            let max = shared.session.retained_max;
            match shared.retained.select(&filters, max).await {
                Ok(found) => return Fetched::Retained(filter, found),
                Err(error) => retry("retained messages", &error).await,
            }
        },
    }
}

pub(super) async fn read_again(shared: &Shared, source: &Source) -> Option<Arc<Downlink>> {
    loop {
        let found = match source {
            Source::Retained(topic) => shared.retained.on(topic).await,
            Source::Gone => Ok(None),
            Source::Stream(sequence)
            | Source::Backlog(sequence)
            | Source::Shared { sequence, .. } => {
                let stored = shared.reader.at(*sequence).await;
                stored.map(|stored| stored.and_then(|stored| read(shared, &stored)))
            }
        };
        match found {
            Ok(found) => return found,
            Err(error) => retry("unacknowledged downlink", &error).await,
        }
    }
}

pub(super) fn read(shared: &Shared, stored: &Stored) -> Option<Arc<Downlink>> {
    downlink::read(&shared.mapping, stored)
}

async fn retry(what: &str, error: &ReadError) {
    tracing::debug!(what, %error, "not read yet");
    sleep(RETRY).await;
}
