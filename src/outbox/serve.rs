//! The outbox of a node: its tables, its relay, what wakes that one, figures, and old rows removed.
//!
//! A database that is away is waited for, here and nowhere else: nothing of the node depends on it.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::store::{CHANNEL, Error};
use super::{Publisher, Relay};
use crate::database::Pool;

/// How often figures are taken and old rows looked for.
const LOOK: Duration = Duration::from_secs(2);
/// How long a database that is away is left alone, at most.
const AWAY_MAX: Duration = Duration::from_secs(5);

impl<P: Publisher> Relay<P> {
    /// Works until `shutdown`, and until what was under way then is settled.
    pub async fn serve(self, shutdown: CancellationToken) {
        if shutdown
            .run_until_cancelled(Box::pin(self.prepare()))
            .await
            .is_none()
        {
            return;
        }
        let run = async {
            if self.config.relay_enabled {
                self.run(&shutdown).await;
            }
        };
        let beside = async {
            tokio::join!(self.listen(), self.look());
        };
        let beside = shutdown.run_until_cancelled(beside);
        tokio::join!(run, beside);
    }

    /// Returns when the tables are there.
    async fn prepare(&self) {
        let mut wait = Duration::from_millis(50);
        while let Err(error) = self.store.migrate().await {
            self.metrics.failures.inc();
            tracing::warn!(%error, "the outbox waits for its database");
            sleep(wait).await;
            wait = (wait * 2).min(AWAY_MAX);
        }
    }

    /// PostgreSQL tells of commits wherever they are made; for the others, the relay of another process looks now and then.
    async fn listen(&self) {
        let Pool::Postgres(pool) = self.store.pool() else {
            return;
        };
        loop {
            if let Ok(mut listener) = PgListener::connect_with(pool).await
                && listener.listen(CHANNEL).await.is_ok()
            {
                // What was told meanwhile is lost.
                self.wake.wake();
                while let Ok(Some(_notice)) = listener.try_recv().await {
                    self.wake.wake();
                }
            }
            sleep(AWAY_MAX).await;
        }
    }

    async fn look(&self) {
        loop {
            if let Err(error) = self.look_once().await {
                self.metrics.failures.inc();
                tracing::debug!(%error, "outbox not looked at");
            }
            sleep(LOOK).await;
        }
    }

    async fn look_once(&self) -> Result<(), Error> {
        self.metrics.show(&self.store.stats().await?);
        let retention = Duration::from_secs(self.config.retention_s);
        loop {
            let (purged, more) = self.store.purge_published(retention).await?;
            self.metrics.purged.inc_by(purged);
            if !more {
                return Ok(());
            }
        }
    }
}
