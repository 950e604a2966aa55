//! The two ends of history: room for the days to come, and what is too old removed in bounded steps.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::store::{Tables, day_of};
use crate::database;
use crate::telemetry;

/// How often it is looked at, and how soon again when the database is away.
const EVERY: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(5);
/// How many days room is made ahead for.
const DAYS_AHEAD: i64 = 3;
/// Between two bounded steps of a purge, so that reports come through.
const PURGE_PAUSE: Duration = Duration::from_millis(20);

/// Makes room for the days to come, and removes what is too old.
pub struct History {
    /// The tables.
    pub tables: Tables,
    /// How long a report is kept from when it was received, seconds; 0: for ever.
    pub retention_s: u64,
    /// Where steps are counted.
    pub metrics: Metrics,
}

/// What could not be done.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Tables(#[from] database::Error),
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

impl History {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            let look = shutdown.run_until_cancelled(self.look());
            if let Some(Err(error)) = look.await {
                tracing::warn!(%error, "history of GPS reports not looked after");
                ticks.reset_after(AGAIN);
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        self.tables.migrate().await?;
        let now_ms = telemetry::now_unix_ms();
        let today = day_of(i64::try_from(now_ms).unwrap_or(i64::MAX));
        self.tables.make_room(today..today + DAYS_AHEAD).await?;
        if self.retention_s == 0 {
            return Ok(());
        }
        let before_ms = now_ms.saturating_sub(self.retention_s.saturating_mul(1_000));
        while self.tables.purge(before_ms).await? {
            self.metrics.purges.inc();
            sleep(PURGE_PAUSE).await;
        }
        Ok(())
    }
}
