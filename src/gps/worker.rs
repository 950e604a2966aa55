//! The worker of a shard: takes the lease, begins at the cursor, reads ahead while a batch is written.
//!
//! Whatever goes wrong, it begins again at the cursor, which says what is written and what is not: there is no other recovery. A database
//! that is away or slow keeps this worker waiting and nobody else.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::metrics::Metrics;
use super::queue::{Created, Input, Queue};
use super::reading::Reading;
use super::store::{Cursor, Tables};
use super::watched::Watched;
use super::writing::{self, Writing};
use crate::database;
use crate::dlq::Once;
use crate::jetstream::{Bucket, Fed, Feed, Lease, Link, ReadError};
use crate::mapping::Mapping;
use crate::outbox::store::{self, Store, Wake};

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How often the cursor passes messages that have no position: a transaction for each would cost the database more than the
/// reports do.
const PASS: Duration = Duration::from_secs(1);

/// Writes reports; one for all shards of a node.
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
    /// Where positions are, and what is looked for.
    pub watched: Arc<Watched>,
    /// Where they go.
    pub tables: Tables,
    /// The outbox beside them, in the same database.
    pub outbox: Store,
    /// Its relay, if there is one in this process.
    pub wake: Wake,
    /// Its figures.
    pub metrics: Metrics,
}

/// Why a worker begins again at its cursor.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Tables(#[from] database::Error),
    #[error(transparent)]
    Outbox(#[from] store::Error),
    #[error("cursor: {0}")]
    Cursor(#[from] sqlx::Error),
    #[error("source stream: {0}")]
    Source(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] writing::Error),
    #[error(
        "the cursor is of {found} shards, expected {expected}: gps.shards stays as it was at the first start"
    )]
    Shards { found: i32, expected: i32 },
}

impl Worker {
    /// Works on a shard until `shutdown`.
    pub async fn run(self, shard: u32, shutdown: CancellationToken) {
        let key = format!("gps.{shard}");
        let mut lease = Lease::new(&self.nodes, &self.node, key, self.config.lease());
        let work = Box::pin(self.work(shard, &mut lease));
        shutdown.run_until_cancelled(work).await;
        lease.release().await;
    }

    async fn work(&self, shard: u32, lease: &mut Lease) {
        let mut failures: u32 = 0;
        loop {
            lease.take().await;
            self.metrics.shards.inc();
            let before = self.metrics.batches.get();
            let ended = tokio::select! {
                () = lease.lost() => None,
                Err(error) = self.follow(shard) => Some(error),
            };
            self.metrics.shards.dec();
            self.metrics.restarts.inc();
            let Some(error) = ended else {
                tracing::info!(shard, "another node writes the reports of the shard");
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
                tracing::warn!(shard, %error, failures, "GPS reports begin again at their cursor");
            }
            let backoff = BACKOFF_MIN * 2_u32.saturating_pow(failures.min(10));
            sleep(backoff.min(BACKOFF_MAX)).await;
        }
    }

    /// Writes reports from the cursor on, for ever.
    async fn follow(&self, shard: u32) -> Result<Infallible, Error> {
        let (mut feed, mut cursor) = self.begin(shard).await?;
        let reading = self.reading(shard);
        let mut writing = Some(self.writing(shard));
        let mut created = created(&feed);
        let mut queue = Queue::default();
        let mut batch = OptionFuture::from(None);
        let mut pass = interval(PASS);
        pass.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_to_pass = false;
        loop {
            let is_due = queue.is_worth_writing() || (is_to_pass && !queue.is_empty());
            if let Some(mut idle) = writing.take_if(|_| is_due) {
                let inputs = queue.take(self.config.batch_rows_max);
                let place = cursor.clone();
                is_to_pass = false;
                batch = OptionFuture::from(Some(Box::pin(async move {
                    let written = idle.write(inputs, place).await;
                    (idle, written)
                })));
            }
            tokio::select! {
                biased;
                Some((idle, written)) = &mut batch => {
                    cursor = written?;
                    (writing, batch) = (Some(idle), OptionFuture::from(None));
                }
                _ = pass.tick() => is_to_pass = true,
                fed = feed.next(), if queue.has_room() => match fed {
                    Fed::Message(stored) => queue.push(reading.read(&created, &stored)),
                    Fed::Reset(sequence) => {
                        created = self::created(&feed);
                        queue.push(Input { created: created.clone(), sequence, found: None });
                    }
                },
            }
        }
    }

    /// The source behind the cursor; from its first message on if there is no cursor.
    async fn begin(&self, shard: u32) -> Result<(Feed, Option<Cursor>), Error> {
        self.tables.migrate().await?;
        Box::pin(self.outbox.migrate()).await?;
        let number = i32::try_from(shard).unwrap_or(i32::MAX);
        let expected = i32::try_from(self.config.shards).unwrap_or(i32::MAX);
        let all = [">".into()];
        let Some(cursor) = self.tables.cursor(number).await? else {
            tracing::info!(shard, "GPS reports begin at the first uplink");
            let feed = Feed::from_first(&self.link, &self.source, &all).await?;
            return Ok((feed, None));
        };
        if cursor.shards != expected {
            let found = cursor.shards;
            return Err(Error::Shards { found, expected });
        }
        let sequence = u64::try_from(cursor.sequence).unwrap_or(0);
        // Of another stream: no time of creation is the same.
        let created = match *cursor.stream == *self.source {
            true => &*cursor.created,
            false => "",
        };
        let feed = Feed::resume(&self.link, &self.source, &all, created, sequence);
        tracing::info!(shard, sequence, "GPS reports go on");
        Ok((feed, Some(cursor)))
    }

    fn reading(&self, shard: u32) -> Reading {
        Reading {
            mapping: Arc::clone(&self.mapping),
            watched: Arc::clone(&self.watched),
            source: Arc::clone(&self.source),
            shard,
            shards: self.config.shards,
        }
    }

    fn writing(&self, shard: u32) -> Writing {
        Writing {
            tables: self.tables.clone(),
            wake: self.wake.clone(),
            watched: Arc::clone(&self.watched),
            source: Arc::clone(&self.source),
            shard,
            shards: self.config.shards,
            dead_letters: Once::new(&self.link),
            metrics: self.metrics.clone(),
            days: HashSet::new(),
        }
    }
}

/// When the stream that is followed was created.
fn created(feed: &Feed) -> Created {
    let text = feed.stream();
    let at = OffsetDateTime::parse(text, &Rfc3339);
    let ns = at.map_or(0, OffsetDateTime::unix_timestamp_nanos);
    Created {
        text: text.into(),
        ns: i64::try_from(ns).unwrap_or(0),
    }
}
