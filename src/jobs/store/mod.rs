//! Jobs in the database: the locks, the runs with what they said, the results that XXL-JOB has not taken yet.
//!
//! Invariants: one run at most has the lock of a job, by the database's clock; a run ends once; its end, the release of its lock
//! and the result for XXL-JOB are written together.

mod callbacks;
mod lock;
mod runs;

use std::future::Future;
use std::time::Duration;

use super::error::Error;
use crate::database::{Pool, Schema, Transaction};

pub(super) use callbacks::Callback;
pub(super) use lock::{Begun, hold};

/// How often a job's transaction is tried again, each time a little later.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Jobs in one database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
    /// Of one transaction, from its begin to its commit.
    limit: Duration,
    /// How long a run that is not renewed keeps its lock.
    lease: Duration,
}

impl Store {
    /// Jobs in the database of `pool`; a run that is not renewed keeps its lock for `lease`, and no transaction takes longer than
    /// half of that.
    #[must_use]
    pub fn new(pool: Pool, lease: Duration) -> Self {
        Self {
            pool,
            limit: lease / 2,
            lease,
        }
    }

    /// Brings its tables up to date.
    ///
    /// # Errors
    /// [`Error::Database`] when they cannot be used, or the database does not answer.
    pub async fn migrate(&self) -> Result<(), Error> {
        let schema = Schema {
            applied: "jobs_migrations",
            sqlite: sqlx::migrate!("src/jobs/migrations/sqlite"),
            postgres: sqlx::migrate!("src/jobs/migrations/postgres"),
            mysql: sqlx::migrate!("src/jobs/migrations/mysql"),
        };
        Ok(self.pool.migrate(schema).await?)
    }

    /// How long a run that is not renewed keeps its lock.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Begins a transaction of a job.
    pub(super) async fn begin_transaction(&self) -> Result<Transaction, sqlx::Error> {
        self.pool.begin().await
    }

    /// Does a transaction of a job within the time of one, and again as long as others are in its way.
    pub(super) async fn steadily<T, F>(
        &self,
        transaction: impl Fn() -> F + Send,
    ) -> Result<T, Error>
    where
        T: Send,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut tries = 0;
        loop {
            let done = tokio::time::timeout(self.limit, Box::pin(transaction())).await;
            match done.unwrap_or(Err(Error::Unanswered(self.limit))) {
                Err(error) if error.is_passing() && tries < TRIES => tries += 1,
                done => return done,
            }
            tokio::time::sleep(AGAIN * tries).await;
        }
    }

    fn lease_ms(&self) -> i64 {
        ms(self.lease)
    }

    /// What a future over the database gives, in time.
    async fn within<T>(
        &self,
        future: impl Future<Output = Result<T, sqlx::Error>> + Send,
    ) -> Result<T, Error> {
        // Three databases in one future are large, and not what those who wait for it need to carry.
        let answered = tokio::time::timeout(self.limit, Box::pin(future)).await;
        let answered = answered.map_err(|_elapsed| Error::Unanswered(self.limit))?;
        Ok(answered?)
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
