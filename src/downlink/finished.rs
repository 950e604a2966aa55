//! What becomes of a downlink when its device is done with it: the stream forgets it, and what was not delivered is reported
//! first: dead letter, receipt, counter (G30).
//!
//! A message of one receiver is removed by its own sequence, never a range, so nothing else goes with it; and only after its dead
//! letter is stored, if it has one. Whoever reports it again meanwhile does so under the same message id. A message that is for
//! whoever subscribes stays.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Metrics, Outcome, Receipt, Reports};
use crate::device::DeviceId;
use crate::dlq::DeadLetters;
use crate::jetstream::{ReadError, Reader, Stored};
use crate::mapping::{Downlink, Mapping};
use crate::mqtt::Publish;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;

/// Sequences that wait to be removed; one that has no room stays until its lifetime ends.
const WAITING_MAX: usize = 65_536;
/// Removals, and reports, at the same time.
const PARALLEL: usize = 16;
/// How long until JetStream is asked again.
const RETRY: Duration = Duration::from_millis(200);
/// How long a stop waits for removals.
const LAST_MAX: Duration = Duration::from_secs(2);

/// A downlink that its device does not get.
#[derive(Debug)]
pub struct Lost {
    /// Why.
    pub outcome: Outcome,
    /// Its place in the delivery stream, where its bytes are.
    pub sequence: Option<u64>,
    /// What is known of it if it is not there any more.
    pub downlink: Option<Arc<Downlink>>,
    /// The same of one that was never in the delivery stream: a retained message.
    pub publish: Option<Publish>,
}

impl Lost {
    /// One that was read.
    #[must_use]
    pub fn read(downlink: &Arc<Downlink>, outcome: Outcome) -> Self {
        Self {
            outcome,
            sequence: Some(downlink.stream_sequence),
            downlink: Some(Arc::clone(downlink)),
            publish: None,
        }
    }

    /// One that is in the stream.
    #[must_use]
    pub fn at(sequence: u64, outcome: Outcome) -> Self {
        Self {
            outcome,
            sequence: Some(sequence),
            downlink: None,
            publish: None,
        }
    }
}

/// Cares for downlinks that devices are done with; cheap to clone.
#[derive(Clone)]
pub struct Finished(Arc<Inner>);

struct Inner {
    mapping: Arc<Mapping>,
    reader: Reader,
    metrics: Metrics,
    reports: Reports,
    dead_letters: DeadLetters,
    tasks: Tasks,
    reporting: Semaphore,
    removals: mpsc::Sender<u64>,
}

/// The other end: to be run by somebody.
pub struct Removals {
    reader: Reader,
    sequences: mpsc::Receiver<u64>,
}

/// What a report needs.
pub struct Parts {
    /// How messages are read.
    pub mapping: Arc<Mapping>,
    /// The delivery stream.
    pub reader: Reader,
    /// Counts.
    pub metrics: Metrics,
    /// Receipts.
    pub reports: Reports,
    /// Dead letters.
    pub dead_letters: DeadLetters,
    /// Where reports run.
    pub tasks: Tasks,
}

impl Finished {
    /// Nothing is finished yet.
    #[must_use]
    pub fn new(parts: Parts) -> (Self, Removals) {
        let (removals, sequences) = mpsc::channel(WAITING_MAX);
        let reader = parts.reader.clone();
        let finished = Self(Arc::new(Inner {
            mapping: parts.mapping,
            reader: parts.reader,
            metrics: parts.metrics,
            reports: parts.reports,
            dead_letters: parts.dead_letters,
            tasks: parts.tasks,
            reporting: Semaphore::new(PARALLEL),
            removals,
        }));
        (finished, Removals { reader, sequences })
    }

    /// What it counts with.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The device has it: the stream may forget it.
    pub fn delivered(&self, sequence: u64) {
        if self.0.mapping.has_one_receiver() && self.0.removals.try_send(sequence).is_err() {
            tracing::debug!(sequence, "delivered downlink stays in the stream");
        }
    }

    /// The device does not get it: counted at once, reported in the background.
    pub fn lost(&self, device: &DeviceId, lost: Lost) {
        self.0.metrics.count(lost.outcome);
        let (this, device) = (self.clone(), device.clone());
        self.0.tasks.spawn("dead letter", OnExit::Log, async move {
            this.report(&device, lost).await;
        });
    }

    /// As [`lost`](Self::lost), for whoever read it; returns when it is reported.
    pub async fn give_up(&self, device: &DeviceId, stored: &Stored, outcome: Outcome) {
        self.0.metrics.count(outcome);
        let lost = Lost::at(stored.sequence, outcome);
        self.write(device, lost, Some(stored)).await;
    }

    async fn report(&self, device: &DeviceId, lost: Lost) {
        let permit = self.0.reporting.acquire().await;
        let stored = match lost.sequence {
            Some(sequence) => self.read(sequence).await,
            None => None,
        };
        self.write(device, lost, stored.as_ref()).await;
        drop(permit);
    }

    async fn read(&self, sequence: u64) -> Option<Stored> {
        loop {
            match self.0.reader.at(sequence).await {
                Ok(stored) => return stored,
                Err(error) => {
                    tracing::debug!(sequence, %error, "undelivered downlink not read yet");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Dead letter, receipt, removal, in this order: who dies in between leaves it to be done again.
    async fn write(&self, device: &DeviceId, lost: Lost, stored: Option<&Stored>) {
        let reason = lost.outcome.as_str();
        let downlink = match (lost.downlink, stored) {
            (Some(downlink), _) => Some(downlink),
            (None, Some(stored)) => self.0.mapping.downlink(&stored.message).ok().map(Arc::new),
            (None, None) => None,
        };
        let publish = downlink.as_ref().map(|downlink| downlink.as_publish());
        let publish = publish.or(lost.publish);
        let dead = mapping_dead(device, stored, publish.as_ref(), reason, lost.sequence);
        let Some(dead) = dead else {
            // Somebody else cared for it.
            return;
        };
        tracing::warn!(%device, sequence = lost.sequence, reason, "downlink not delivered");
        let kept = self.0.dead_letters.keep(device, dead).await;
        if let Some(downlink) = &downlink {
            let receipt = match lost.outcome {
                Outcome::Expired => Receipt::Expired,
                _ => Receipt::Rejected,
            };
            self.0.reports.report(device, downlink, receipt);
        }
        if kept && let Some(sequence) = lost.sequence {
            self.delivered(sequence);
        }
    }
}

fn mapping_dead(
    device: &DeviceId,
    stored: Option<&Stored>,
    publish: Option<&Publish>,
    reason: &'static str,
    sequence: Option<u64>,
) -> Option<crate::message::Message> {
    let death = crate::mapping::Death {
        reason,
        sequence,
        now_ms: telemetry::now_unix_ms(),
    };
    let original = stored.map(|stored| &stored.message);
    Mapping::dead_downlink(device, original, publish, &death)
}

impl Removals {
    /// Removes what is finished until `shutdown`, and then what waits by then, for a while.
    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.remove_all() => {}
        }
        self.sequences.close();
        if timeout(LAST_MAX, self.remove_all()).await.is_err() {
            tracing::info!("delivered downlinks stay in the stream");
        }
    }

    /// Until nothing can come any more.
    async fn remove_all(&mut self) {
        let mut removing = FuturesUnordered::new();
        loop {
            let more = removing.len() < PARALLEL;
            tokio::select! {
                sequence = self.sequences.recv(), if more => match sequence {
                    Some(sequence) => removing.push(remove(self.reader.clone(), sequence)),
                    None => break,
                },
                Some(()) = removing.next() => {}
            }
        }
        while let Some(()) = removing.next().await {}
    }
}

/// Only who gives no answer is asked again: a stream that is gone has nothing to be removed, and the one that takes its place has
/// another message under this sequence.
async fn remove(reader: Reader, sequence: u64) {
    while let Err(error) = reader.remove(sequence).await {
        tracing::debug!(sequence, %error, "delivered downlink not removed");
        match error {
            ReadError::Refused { .. } => return,
            ReadError::Unanswered { .. } => sleep(RETRY).await,
        }
    }
}
