//! How far events are behind, whoever works on them: asked of the streams by every node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::cursor::{self, Cursor};
use super::metrics::Metrics;
use super::worker::EVENTS;
use crate::jetstream::{Link, Reader};
use crate::telemetry;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(2);

/// Looks at the source stream and at the cursors.
pub struct Progress {
    source: Reader,
    events: Reader,
    shards: u32,
    metrics: Metrics,
}

impl Progress {
    /// Of the events that are made of this stream, in so many shards.
    #[must_use]
    pub fn new(link: &Link, source: &Arc<str>, shards: u32, metrics: &Metrics) -> Self {
        Self {
            source: Reader::new(link, source),
            events: Reader::new(link, EVENTS),
            shards,
            metrics: metrics.clone(),
        }
    }

    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            let look = shutdown.run_until_cancelled(self.look());
            if let Some(Err(error)) = look.await {
                tracing::debug!(%error, "progress of events not known");
            }
        }
    }

    async fn look(&self) -> Result<(), cursor::Error> {
        let (created, last) = self.source.extent().await?;
        let mut least = last;
        for shard in 0..self.shards {
            let (cursor, _) = Cursor::read(&self.events, shard).await?;
            let own = cursor.filter(|cursor| cursor.created == created);
            least = least.min(own.map_or(0, |cursor| cursor.sequence));
        }
        let oldest = match least < last {
            true => self.source.next_after(least).await?,
            false => None,
        };
        let age = oldest.map_or(0, |oldest| {
            telemetry::now_unix_ms().saturating_sub(oldest.time_ms) / 1_000
        });
        let gauge = |value| i64::try_from(value).unwrap_or(i64::MAX);
        self.metrics.lag.set(gauge(last - least));
        self.metrics.oldest_seconds.set(gauge(age));
        Ok(())
    }
}
