//! What stands between logins and a step's source: a bounded cache of its verdicts, a time limit, a limit of what is asked at once,
//! and a circuit breaker.
//!
//! The same attempt made several times at once is asked about once. The cache knows attempts by a keyed hash, and holds no password.
//!
//! Invariants: every answer comes within the time limit; a source that does not answer is [`Unavailable`], never a denial, is not
//! remembered, and is asked again at the next login or, after failures in a row, by one login at a time (G24).

use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::breaker::Breaker;
use crate::auth::denied::Unavailable;
use crate::telemetry;

/// Limits of a step, each with a default of the step's own kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How long a login may wait for the answer, in milliseconds.
    pub timeout_ms: u64,
    /// How many logins may be asked about at once; more wait, within `timeout_ms`.
    pub inflight_max: usize,
    /// How many answers are remembered. One takes about 300 bytes.
    pub cache_entries_max: usize,
    /// How long an accepted login is remembered, in milliseconds; never longer than the login is valid for. 0: not at all.
    pub cache_ttl_ms: u64,
    /// How long any other answer is remembered, in milliseconds. 0: not at all.
    pub cache_denied_ttl_ms: u64,
    /// After so many questions in a row without an answer, the source is not asked any more ...
    pub breaker_failures: u32,
    /// ... except for one login in this time, in milliseconds, whose answer ends it.
    pub breaker_wait_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_ms: 2_000,
            inflight_max: 256,
            cache_entries_max: 100_000,
            cache_ttl_ms: 60_000,
            cache_denied_ttl_ms: 5_000,
            breaker_failures: 20,
            breaker_wait_ms: 1_000,
        }
    }
}

impl Limits {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [
            ("timeout_ms", self.timeout_ms),
            ("inflight_max", self.inflight_max as u64),
            ("cache_entries_max", self.cache_entries_max as u64),
            ("breaker_failures", self.breaker_failures.into()),
            ("breaker_wait_ms", self.breaker_wait_ms),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("limits.{key}: expected more than 0"))
        .collect()
    }
}

/// Stands before one source.
pub(super) struct Gate {
    /// Random, of this process alone.
    key: [u8; 32],
    pub(super) cache: Cache<[u8; 32], Cached>,
    breaker: Breaker,
    room: Arc<Semaphore>,
    limit: Duration,
    ttl: Duration,
    denied_ttl: Duration,
}

#[derive(Clone)]
pub(super) struct Cached {
    verdict: Verdict,
    expires: Instant,
}

impl Gate {
    /// With an empty cache.
    pub(super) fn new(limits: &Limits) -> Self {
        let mut key = [0; 32];
        for bytes in key.as_chunks_mut::<8>().0 {
            *bytes = telemetry::random_u64().to_ne_bytes();
        }
        Self {
            key,
            cache: Cache::new(limits.cache_entries_max),
            breaker: Breaker::new(
                limits.breaker_failures,
                Duration::from_millis(limits.breaker_wait_ms),
            ),
            room: Arc::new(Semaphore::new(limits.inflight_max)),
            limit: Duration::from_millis(limits.timeout_ms),
            ttl: Duration::from_millis(limits.cache_ttl_ms),
            denied_ttl: Duration::from_millis(limits.cache_denied_ttl_ms),
        }
    }

    /// The verdict on this attempt: remembered, or what `source` says.
    ///
    /// # Errors
    /// [`Unavailable`] when it does not say anything in time.
    pub(super) async fn ask<F>(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
        source: impl FnOnce(Room) -> F,
    ) -> Result<Verdict, Unavailable>
    where
        F: Future<Output = Result<Verdict, Unavailable>>,
    {
        let key = self.key(attempt);
        self.cache.remove_if(&key, |cached| !cached.is_fresh(now));
        // Its own time limit: whoever waits for another's question may get the place late.
        timeout(self.limit, self.fill(now, &key, source))
            .await
            .unwrap_or(Err(Unavailable::Timeout(self.limit)))
    }

    async fn fill<F>(
        &self,
        now: Instant,
        key: &[u8; 32],
        source: impl FnOnce(Room) -> F,
    ) -> Result<Verdict, Unavailable>
    where
        F: Future<Output = Result<Verdict, Unavailable>>,
    {
        let place = match self.cache.get_value_or_guard_async(key).await {
            Ok(cached) => return Ok(cached.verdict),
            Err(place) => place,
        };
        // Too many logins are no failure of the source: waiting here counts against nobody.
        let room = Arc::clone(&self.room).acquire_owned().await;
        if !self.breaker.admits(now) {
            return Err(Unavailable::Broken);
        }
        let mut asked = Asked {
            gate: self,
            now,
            begun: Instant::now(),
            outcome: None,
        };
        let outcome = source(Room { _permit: room.ok() }).await;
        // Without keys nobody was asked, and who sends what has no key must not open the breaker.
        let was_asked = !matches!(outcome, Err(Unavailable::Keys));
        asked.outcome = was_asked.then_some(outcome.is_ok());
        drop(asked);
        let verdict = outcome?;
        let cached = Cached {
            expires: now + self.ttl(&verdict),
            verdict,
        };
        drop(place.insert(cached.clone()));
        Ok(cached.verdict)
    }

    fn ttl(&self, verdict: &Verdict) -> Duration {
        match verdict {
            Verdict::Accept(Decision { expires_ms, .. }) => {
                let left = |at: u64| at.saturating_sub(telemetry::now_unix_ms());
                let left = expires_ms.map_or(Duration::MAX, |at| Duration::from_millis(left(at)));
                self.ttl.min(left)
            }
            Verdict::Deny(_) | Verdict::Pass(_) => self.denied_ttl,
        }
    }

    /// The attempt's name in the cache: everything that an answer may depend on.
    fn key(&self, attempt: &Attempt<'_>) -> [u8; 32] {
        let mut hash = Sha256::new_with_prefix(self.key);
        let peer = attempt.peer.map(|peer| peer.ip().to_string());
        let certificate = attempt.certificate;
        let fields = [
            Some(attempt.listener.as_bytes()),
            peer.as_deref().map(str::as_bytes),
            certificate.map(|certificate| certificate.fingerprint.as_slice()),
            Some(attempt.client_id.as_bytes()),
            attempt.username.map(str::as_bytes),
            attempt.password,
        ];
        for field in fields {
            // With its length, so that no two attempts run together; none differs from empty.
            hash.update(
                field
                    .map_or(u64::MAX, |field| field.len() as u64)
                    .to_be_bytes(),
            );
            hash.update(field.unwrap_or_default());
        }
        hash.finalize().into()
    }
}

impl Cached {
    fn is_fresh(&self, now: Instant) -> bool {
        now < self.expires
    }
}

/// A place among those that are asked about at once. Held for as long as the question costs anything.
pub(super) struct Room {
    _permit: Option<OwnedSemaphorePermit>,
}

/// A question under way, and what the breaker is told when it ends.
struct Asked<'a> {
    gate: &'a Gate,
    now: Instant,
    begun: Instant,
    /// Whether there was an answer; none while it is not known.
    outcome: Option<bool>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        // A login that is given up early says nothing about the source; one that waited for most of the time does.
        let outcome = match self.outcome {
            None if took * 2 < self.gate.limit => return,
            outcome => outcome.unwrap_or(false),
        };
        self.gate.breaker.record(self.now + took, outcome);
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
