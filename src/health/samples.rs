//! What the server tells about messages that a durable is finished with: sampled acknowledgements, and its advisories.
//!
//! A durable says in its `sample_freq` of how many acknowledgements it tells; each stands for as many. Without sampling only
//! what fails for good is known. What happens while this node has no NATS connection is not counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::measured::Tally;
use super::metrics::{DurableLabel, Metrics};
use crate::jetstream::Link;

/// Of so many acknowledgements the times are kept, for the p99.
const TIMES_MAX: usize = 512;
/// How a message can end; each with stream and durable behind it.
const ACKNOWLEDGED: &str = "$JS.EVENT.METRIC.CONSUMER.ACK";
const ENDS: [&str; 3] = [
    ACKNOWLEDGED,
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED",
];

/// The common fields of the three.
#[derive(Deserialize)]
struct Ended {
    stream: String,
    consumer: String,
    deliveries: u64,
    /// Nanoseconds from the last delivery.
    #[serde(default)]
    ack_time: u64,
}

/// Counts what became of the messages of each durable; cheap to clone.
#[derive(Clone)]
pub(super) struct Samples {
    link: Link,
    metrics: Metrics,
    counts: Arc<Mutex<Vec<Count>>>,
}

struct Count {
    label: DurableLabel,
    /// Acknowledgements that one sample stands for.
    weight: u64,
    tally: Tally,
    times: VecDeque<u64>,
}

impl Samples {
    pub(super) fn new(link: &Link, metrics: &Metrics, durables: &[(String, String)]) -> Self {
        let count = |(stream, durable): &(String, String)| Count {
            label: DurableLabel {
                stream: stream.clone(),
                durable: durable.clone(),
            },
            weight: 1,
            tally: Tally::default(),
            times: VecDeque::with_capacity(TIMES_MAX),
        };
        Self {
            link: link.clone(),
            metrics: metrics.clone(),
            counts: Arc::new(Mutex::new(durables.iter().map(count).collect())),
        }
    }

    /// Listens until `shutdown`.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.listen() => {}
        }
    }

    async fn listen(&self) {
        let mut subscribers: Vec<Subscriber> = Vec::new();
        let labels = self
            .counts()
            .iter()
            .map(|count| count.label.clone())
            .collect::<Vec<_>>();
        for label in labels {
            for end in ENDS {
                let subject = format!("{end}.{}.{}", label.stream, label.durable);
                match self.link.client.subscribe(subject).await {
                    Ok(subscriber) => subscribers.push(subscriber),
                    Err(error) => return tracing::error!(%error, "durables are not listened to"),
                }
            }
        }
        let mut events = select_all(subscribers);
        while let Some(event) = events.next().await {
            let is_acknowledged = event.subject.starts_with(ACKNOWLEDGED);
            if let Ok(ended) = serde_json::from_slice(&event.payload) {
                self.count(&ended, is_acknowledged);
            }
        }
    }

    fn count(&self, ended: &Ended, is_acknowledged: bool) {
        let mut counts = self.counts();
        let is_it = |count: &&mut Count| {
            count.label.stream == ended.stream && count.label.durable == ended.consumer
        };
        let Some(count) = counts.iter_mut().find(is_it) else {
            return;
        };
        let weight = if is_acknowledged { count.weight } else { 1 };
        let redelivered = ended.deliveries.saturating_sub(1) * weight;
        let (handled, failed) = match is_acknowledged {
            true => (weight, redelivered),
            false => (0, ended.deliveries),
        };
        count.tally.handled += handled;
        count.tally.failed += failed;
        count.tally.redelivered += redelivered;
        let (metrics, label) = (&self.metrics, &count.label);
        metrics.handled.get_or_create(label).inc_by(handled);
        metrics.failed.get_or_create(label).inc_by(failed);
        metrics.redelivered.get_or_create(label).inc_by(redelivered);
        if is_acknowledged {
            let seconds = Duration::from_nanos(ended.ack_time).as_secs_f64();
            metrics.handling.get_or_create(label).observe(seconds);
            if count.times.len() == TIMES_MAX {
                count.times.pop_front();
            }
            count.times.push_back(ended.ack_time);
        }
    }

    /// What became of the messages of the durable with this number, which tells of so many acknowledgements in a hundred.
    pub(super) fn tally(&self, number: usize, sample_percent: u64) -> Tally {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(number) else {
            return Tally::default();
        };
        count.weight = 100 / sample_percent.clamp(1, 100);
        let mut times: Vec<u64> = count.times.iter().copied().collect();
        times.sort_unstable();
        let at = (times.len() * 99).div_ceil(100).saturating_sub(1);
        Tally {
            p99: times.get(at).copied().map(Duration::from_nanos),
            ..count.tally
        }
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
