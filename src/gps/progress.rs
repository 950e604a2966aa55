//! How far reports are behind, whoever writes them: asked of stream and database by every node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::store::Tables;
use crate::jetstream::{Link, ReadError, Reader};
use crate::telemetry;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(2);
/// Looks at the source stream and at the cursors.
pub struct Progress {
    source: Reader,
    tables: Tables,
    shards: u32,
    metrics: Metrics,
}

/// What it could not ask.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("source stream: {0}")]
    Source(#[from] ReadError),
    #[error("cursors: {0}")]
    Cursors(#[from] sqlx::Error),
}

impl Progress {
    /// Of the reports that are made of this stream, in so many shards.
    #[must_use]
    pub fn new(
        link: &Link,
        source: &Arc<str>,
        tables: &Tables,
        shards: u32,
        metrics: &Metrics,
    ) -> Self {
        Self {
            source: Reader::new(link, source),
            tables: tables.clone(),
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
                tracing::debug!(%error, "progress of GPS reports not known");
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let (created, last) = self.source.extent().await?;
        let cursors = self.tables.cursors().await?;
        let own = cursors.iter().filter(|cursor| cursor.created == created);
        let sequences: Vec<u64> = own
            .filter_map(|cursor| u64::try_from(cursor.sequence).ok())
            .collect();
        let is_each = sequences.len() >= self.shards as usize;
        let least = sequences.into_iter().min().filter(|_| is_each);
        let least = least.unwrap_or(0).min(last);
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
