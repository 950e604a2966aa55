//! The database of jobs: its tables, and transactions within their time.

use std::future::Future;
use std::time::Duration;

use crate::database::{Pool, Schema, Transaction};
use crate::jobs::error::Error;

/// How often a job's transaction is tried again, each time a little later.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(50);

/// Jobs in one database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) pool: Pool,
    /// Of one transaction, from its begin to its commit.
    pub(super) limit: Duration,
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
    pub(in crate::jobs) async fn begin_transaction(&self) -> Result<Transaction, sqlx::Error> {
        self.pool.begin().await
    }

    /// Does a transaction of a job within the time of one, and again as long as others are in its way.
    pub(in crate::jobs) async fn steadily<T, F>(
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

    pub(super) fn lease_ms(&self) -> i64 {
        ms(self.lease)
    }

    /// What a future over the database gives, in time.
    pub(super) async fn within<T>(
        &self,
        future: impl Future<Output = Result<T, sqlx::Error>> + Send,
    ) -> Result<T, Error> {
        // Three databases in one future are large, and not what those who wait for it need to carry.
        let answered = tokio::time::timeout(self.limit, Box::pin(future)).await;
        let answered = answered.map_err(|_elapsed| Error::Unanswered(self.limit))?;
        Ok(answered?)
    }
}

pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
