//! The relay: claims rows, hands them to the broker, writes down what became of them.
//!
//! Any number may run. One has a few claims out at a time, each of other shards. It begins at once, looks again when a claim comes
//! back or a commit wakes it, and beyond that now and then. A broker that says nothing about the rows is left alone for a moment
//! and then asked with few of them; none is claimed before it can be reached.
//! Invariant: rows are handed over only well before their lease ends, by a clock that nobody sets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Publisher;
use super::config::Config;
use super::metrics::Metrics;
use super::store::{Answer, Claim, Error, Settled, Store, Terms, Wake};

/// Claims of one relay at once.
const CLAIMS_MAX: usize = 4;
/// Claims of one pass.
const PASS_CLAIMS_MAX: usize = 64;
/// Rows that a broker is asked with which said nothing before.
const PROBE_ROWS: usize = 32;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Empties the outbox.
pub struct Relay<P> {
    /// The outbox.
    pub store: Store,
    /// The broker.
    pub publisher: Arc<P>,
    /// How patiently.
    pub config: Config,
    /// Its figures.
    pub metrics: Metrics,
    /// What wakes it.
    pub wake: Wake,
}

/// What one bounded pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// Rows that were taken.
    pub claimed: u64,
    /// Of them published.
    pub published: u64,
    /// Refused, and to be tried again.
    pub refused: u64,
    /// Refused for the last time.
    pub dead: u64,
    /// Not answered, not handed over, or taken over by somebody else meanwhile.
    pub unanswered: u64,
}

/// How it goes with the broker and the database.
#[derive(Clone, Copy)]
struct Course {
    failures: u32,
    /// Nothing is claimed before.
    from: Instant,
}

impl Course {
    fn good() -> Self {
        Self {
            failures: 0,
            from: Instant::now(),
        }
    }

    fn bad(&mut self) {
        let wait = BACKOFF_MIN * 2_u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.from = Instant::now() + wait.min(BACKOFF_MAX);
    }

    /// A claim that came back without a word about any of its rows is bad.
    fn judge(&mut self, settled: &Settled) {
        let told = settled.published + settled.refused + settled.dead;
        match (told, settled.unanswered) {
            (0, 0) => {}
            (0, _) => self.bad(),
            _ => *self = Self::good(),
        }
    }
}

impl<P> Clone for Relay<P> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            publisher: Arc::clone(&self.publisher),
            config: self.config.clone(),
            metrics: self.metrics.clone(),
            wake: self.wake.clone(),
        }
    }
}

impl<P: Publisher> Relay<P> {
    /// Publishes rows as they come, until `shutdown`; returns when what is under way then is settled. The tables must be there.
    pub async fn run(&self, shutdown: &CancellationToken) {
        let mut flights = FuturesUnordered::new();
        let mut course = Course::good();
        let mut looks = true;
        while !shutdown.is_cancelled() {
            let claims_max = if course.failures == 0 { CLAIMS_MAX } else { 1 };
            if looks && flights.len() < claims_max {
                let claiming = self.claim(course, shutdown);
                let mut claiming = std::pin::pin!(claiming);
                let mut freed = false;
                let claimed = loop {
                    tokio::select! {
                        claimed = &mut claiming => break claimed,
                        Some(settled) = flights.next(), if !flights.is_empty() => {
                            freed = true;
                            course.judge(&settled);
                        }
                    }
                };
                match claimed {
                    Ok(Some(claim)) => flights.push(self.carry(claim)),
                    // What came back meanwhile may have left more behind.
                    Ok(None) => looks = freed,
                    Err(error) => self.failed(&error, &mut course),
                }
                continue;
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                Some(settled) = flights.next(), if !flights.is_empty() => {
                    looks = true;
                    course.judge(&settled);
                }
                () = self.wake.woken(), if !looks => looks = true,
                () = sleep(self.config.poll_interval()), if !looks => looks = true,
            }
        }
        while flights.next().await.is_some() {}
    }

    /// Publishes what may go out now, one claim after the other, and no more than some of them; nothing while the broker cannot be
    /// reached.
    ///
    /// # Errors
    /// [`Error::Database`]; what was published before is settled.
    pub async fn pass(&self) -> Result<Pass, Error> {
        let mut pass = Pass::default();
        let reachable = timeout(BACKOFF_MAX, self.publisher.reachable());
        if reachable.await.is_err() {
            return Ok(pass);
        }
        for _ in 0..PASS_CLAIMS_MAX {
            let Some(claim) = self.take(&self.config.terms()).await? else {
                break;
            };
            let rows = claim.rows.len() as u64;
            let settled = self.carry(claim).await;
            pass.claimed += rows;
            pass.published += settled.published;
            pass.refused += settled.refused;
            pass.dead += settled.dead;
            pass.unanswered += settled.unanswered + settled.late;
            if rows > 0 && settled.published + settled.refused + settled.dead == 0 {
                break;
            }
        }
        Ok(pass)
    }

    async fn claim(
        &self,
        course: Course,
        shutdown: &CancellationToken,
    ) -> Result<Option<Claim>, sqlx::Error> {
        let ready = async {
            sleep_until(course.from.into()).await;
            self.publisher.reachable().await;
        };
        if shutdown.run_until_cancelled(ready).await.is_none() {
            return Ok(None);
        }
        let mut terms = self.config.terms();
        if course.failures > 0 {
            terms.rows_max = terms.rows_max.min(PROBE_ROWS);
        }
        self.take(&terms).await
    }

    async fn take(&self, terms: &Terms) -> Result<Option<Claim>, sqlx::Error> {
        let claim = timeout(terms.lease / 4, self.store.claim(terms)).await;
        claim.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// A claim to its end: what became of it is written down, or its lease is over.
    async fn carry(&self, claim: Claim) -> Settled {
        if claim.rows.is_empty() {
            return Settled::default();
        }
        self.metrics.claims.inc();
        let lease = self.config.lease();
        let begun = Instant::now();
        let left = claim.until.saturating_duration_since(begun);
        let answers = match left >= lease * 3 / 4 {
            true => {
                let publish = self.publisher.publish(&claim.rows);
                let answers = timeout(left - lease / 10, publish).await;
                answers.unwrap_or_else(|_elapsed| vec![Answer::Unanswered; claim.rows.len()])
            }
            // This process was stopped, or the database is slow: the time is over before they were answered.
            false => vec![Answer::Held; claim.rows.len()],
        };
        let settled = self.settle(&claim, &answers).await;
        self.metrics.count(&settled);
        if settled.late == 0 {
            let took = begun.elapsed();
            let stored = claim
                .ages_ms()
                .zip(&answers)
                .filter(|(_, answer)| **answer == Answer::Stored);
            for (age, _) in stored {
                let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
                self.metrics.published(age + took);
            }
        }
        if settled.dead > 0 {
            tracing::error!(
                rows = settled.dead,
                "outbox rows are dead: jetway outbox ls"
            );
        }
        settled
    }

    async fn settle(&self, claim: &Claim, answers: &[Answer]) -> Settled {
        let policy = self.config.policy();
        let mut backoff = BACKOFF_MIN;
        loop {
            let settle = self.store.settle(claim, answers, &policy);
            let settled = timeout(self.config.lease() / 4, settle).await;
            let error = match settled.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
                Ok(settled) => return settled,
                Err(error) => error,
            };
            self.metrics.failures.inc();
            if Instant::now() > claim.until {
                tracing::warn!(%error, rows = claim.rows.len(), "outbox rows not settled within their lease");
                let late = claim.rows.len() as u64;
                return Settled {
                    late,
                    ..Settled::default()
                };
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn failed(&self, error: &sqlx::Error, course: &mut Course) {
        self.metrics.failures.inc();
        course.bad();
        if course.failures.is_power_of_two() {
            tracing::warn!(%error, failures = course.failures, "outbox rows not claimed");
        }
    }
}
