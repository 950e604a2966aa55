//! The worker of a shard: takes the lease, begins at the cursor, reads ahead while a batch is stored.
//!
//! Whatever goes wrong, it begins again at the cursor, which says what is stored and what is not: there is no other recovery.
//! What the stream refuses is tried alone until it is known which message it is; that one becomes a dead letter.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::time::{Instant, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::cursor::{self, Cursor};
use super::metrics::Metrics;
use super::models::Models;
use super::queue::{Input, Queue};
use super::reading::Reading;
use super::storing::{self, Storing};
use crate::dlq::Once;
use crate::jetstream::{Bucket, Fed, Feed, Lease, Link, ReadError, Reader, atomic};
use crate::mapping::Mapping;
use crate::telemetry::otlp::Spans;

/// The stream of events and cursors.
pub(super) const EVENTS: &str = "APPLICATION";
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How often an idle worker writes its cursor again, which would grow too old.
const REFRESH: Duration = Duration::from_secs(3_600);
/// So often a message is tried alone before it is given up.
const TRIES_ALONE: u32 = 3;

/// Makes events; one for all shards of a node.
#[derive(Clone)]
pub struct Worker {
    /// Its limits and choices.
    pub config: Config,
    /// NATS.
    pub link: Link,
    /// Whose a message is.
    pub mapping: Arc<Mapping>,
    /// The stream of uplinks.
    pub source: Arc<str>,
    /// Where the leases are.
    pub nodes: Bucket,
    /// This node.
    pub node: Box<str>,
    /// Models of products.
    pub models: Models,
    /// Its figures.
    pub metrics: Metrics,
    /// Where it leaves its spans.
    pub spans: Spans,
}

/// Why a worker begins again at its cursor.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Cursor(#[from] cursor::Error),
    #[error("source stream: {0}")]
    Source(#[from] ReadError),
    #[error(transparent)]
    Store(#[from] storing::Error),
    #[error(
        "the cursor is of {found} shards, expected {expected}: events.shards stays as it was at the first start"
    )]
    Shards { found: u32, expected: u32 },
}

/// What is known about a message that the stream refuses, until it is found.
#[derive(Debug, Default)]
struct Caution {
    /// Up to here fewer messages are stored together, at most so many; 0: there is nothing to be careful about.
    until: u64,
    inputs_max: usize,
    /// How often the one message that is left was refused.
    refused: u32,
    /// The message that is given up, and why.
    given_up: Option<(u64, String)>,
}

impl Worker {
    /// Works on a shard until `shutdown`.
    pub async fn run(self, shard: u32, shutdown: CancellationToken) {
        let mut lease = Lease::new(
            &self.nodes,
            &self.node,
            format!("events.{shard}"),
            self.config.lease(),
        );
        let work = self.work(shard, &mut lease);
        shutdown.run_until_cancelled(work).await;
        lease.release().await;
    }

    async fn work(&self, shard: u32, lease: &mut Lease) {
        let mut caution = Caution::default();
        let mut failures: u32 = 0;
        loop {
            lease.take().await;
            self.metrics.shards.inc();
            let before = self.metrics.batches.get();
            let ended = tokio::select! {
                () = lease.lost() => None,
                Err(error) = self.follow(shard, &mut caution) => Some(error),
            };
            self.metrics.shards.dec();
            self.metrics.restarts.inc();
            let Some(error) = ended else {
                tracing::info!(shard, "another node makes the events of the shard");
                continue;
            };
            failures = match self.metrics.batches.get() == before {
                true => failures.saturating_add(1),
                false => 1,
            };
            if failures > 1 {
                // Another node may do better.
                lease.release().await;
            }
            if failures.is_power_of_two() {
                tracing::warn!(shard, %error, failures, "events begin again at their cursor");
            }
            let backoff = BACKOFF_MIN * 2_u32.saturating_pow(failures.min(10));
            sleep(backoff.min(BACKOFF_MAX)).await;
        }
    }

    /// Makes events from the cursor on, for ever.
    async fn follow(
        &self,
        shard: u32,
        caution: &mut Caution,
    ) -> Result<std::convert::Infallible, Error> {
        let (mut feed, mut cursor, mut revision) = self.begin(shard).await?;
        let reading = self.reading(shard);
        let mut storing = Some(Storing {
            link: self.link.clone(),
            shard,
            dead_letters: Once::new(&self.link),
            metrics: self.metrics.clone(),
            spans: self.spans.clone(),
        });
        let mut created: Arc<str> = feed.stream().into();
        let mut queue = Queue::new(self.config.batch_bytes_max);
        let mut batch = OptionFuture::from(None);
        let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
        loop {
            if let Some(mut idle) = storing.take_if(|_| queue.first().is_some()) {
                let inputs = queue.take(caution.inputs_max(&queue));
                let (place, at) = (cursor.clone(), revision);
                batch = OptionFuture::from(Some(Box::pin(async move {
                    let (count, last) = (
                        inputs.len(),
                        inputs.last().map_or(0, |input| input.sequence),
                    );
                    let stored = idle.store(inputs, place, at).await;
                    (idle, stored, count, last)
                })));
            }
            tokio::select! {
                biased;
                Some((idle, stored, count, last)) = &mut batch => {
                    let stored = stored.inspect_err(|error| caution.note(error, count, last))?;
                    (cursor, revision) = (stored.cursor, stored.revision);
                    caution.passed(last);
                    (storing, batch) = (Some(idle), OptionFuture::from(None));
                }
                _ = refresh.tick(), if storing.is_some() => {
                    queue.push(Input::place(&created, cursor.sequence));
                }
                fed = feed.next(), if queue.has_room() => match fed {
                    Fed::Message(stored) => {
                        queue.push(reading.read(&created, &stored, caution.given_up(stored.sequence)));
                    }
                    Fed::Reset(sequence) => {
                        created = feed.stream().into();
                        queue.push(Input::place(&created, sequence));
                    }
                },
            }
        }
    }

    /// The source behind the cursor; from its first message on if there is no cursor.
    async fn begin(&self, shard: u32) -> Result<(Feed, Cursor, u64), Error> {
        let expected = self.config.shards;
        let events = Reader::new(&self.link, EVENTS);
        let (cursor, revision) = Cursor::read(&events, shard).await?;
        let all = [">".into()];
        let Some(mut cursor) = cursor else {
            let feed = Feed::from_first(&self.link, &self.source, &all).await?;
            let cursor = Cursor {
                source: self.source.to_string(),
                created: feed.stream().to_owned(),
                sequence: 0,
                shards: expected,
            };
            tracing::info!(shard, "events begin at the first uplink");
            return Ok((feed, cursor, revision));
        };
        if cursor.shards != expected {
            let found = cursor.shards;
            return Err(Error::Shards { found, expected });
        }
        if cursor.source != *self.source {
            // Of another stream: no time of creation is the same.
            (cursor.source, cursor.created) = (self.source.to_string(), String::new());
        }
        let Cursor {
            created, sequence, ..
        } = &cursor;
        let feed = Feed::resume(&self.link, &self.source, &all, created, *sequence);
        tracing::info!(shard, sequence, "events go on");
        Ok((feed, cursor, revision))
    }

    fn reading(&self, shard: u32) -> Reading {
        Reading {
            mapping: Arc::clone(&self.mapping),
            models: self.models.clone(),
            settings: self
                .config
                .settings(self.link.client.server_info().max_payload),
            source: Arc::clone(&self.source),
            shard,
            shards: self.config.shards,
        }
    }
}

impl Caution {
    /// How many inputs may be stored together.
    fn inputs_max(&self, queue: &Queue) -> usize {
        match queue.first() {
            Some(first) if first <= self.until => self.inputs_max,
            _ => usize::MAX,
        }
    }

    /// Why the stream does not take the events of a message, if it does not.
    fn given_up(&self, sequence: u64) -> Option<&str> {
        let (given_up, words) = self.given_up.as_ref()?;
        (*given_up == sequence).then_some(words)
    }

    /// So many inputs up to `last` were not stored.
    fn note(&mut self, error: &storing::Error, count: usize, last: u64) {
        let storing::Error::Events(error) = error else {
            return;
        };
        let (atomic::Error::Refused(words) | atomic::Error::Incomplete(words)) = error else {
            return;
        };
        if count > 1 {
            self.until = last;
            self.inputs_max = count / 2;
            return;
        }
        self.refused += 1;
        if self.refused >= TRIES_ALONE {
            tracing::error!(
                sequence = last,
                words,
                "the stream refuses the events of an uplink"
            );
            self.given_up = Some((last, words.clone()));
            self.refused = 0;
        }
    }

    /// Inputs up to `last` are stored.
    fn passed(&mut self, last: u64) {
        self.refused = 0;
        if self
            .given_up
            .take_if(|(given_up, _)| *given_up <= last)
            .is_some()
        {
            self.until = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_that_is_refused_is_found_and_given_up() {
        const BAD: u64 = 700;
        let refused = storing::Error::Events(atomic::Error::Refused("no".to_owned()));
        let (mut caution, mut cursor, mut tries) = (Caution::default(), 0, 0);
        while cursor < 2_000 {
            tries += 1;
            let mut queue = Queue::new(usize::MAX);
            for sequence in cursor + 1..=2_000 {
                // With a reply nothing is passed as an empty one.
                let mut input = Input::place(&"c".into(), sequence);
                input.reply = Some(crate::message::Message {
                    subject: "s".into(),
                    headers: Default::default(),
                    payload: Default::default(),
                });
                queue.push(input);
            }
            let inputs = queue.take(caution.inputs_max(&queue).min(999));
            let last = inputs.last().unwrap().sequence;
            let is_bad =
                |input: &Input| input.sequence == BAD && caution.given_up(input.sequence).is_none();
            if inputs.iter().any(is_bad) {
                caution.note(&refused, inputs.len(), last);
            } else {
                caution.passed(last);
                cursor = last;
            }
        }
        assert!(tries < 60, "{tries} tries");
        assert_eq!(caution.given_up, None);
        // What did not even get an answer says nothing about a message.
        let unanswered = storing::Error::Events(atomic::Error::Unanswered("no".to_owned()));
        caution.note(&unanswered, 1, 3_000);
        assert_eq!((caution.refused, caution.until), (0, 0));
    }
}
