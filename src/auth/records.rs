//! What the database holds about devices, behind a bounded cache, a time limit and a circuit breaker.
//!
//! All look-ups of one device that is not cached share one; unknown devices are remembered, too. It does not judge logins.
//!
//! Invariants: every answer comes within the time limit, however slow the database is; a database that does not answer is
//! [`Unavailable`] and never an unknown device.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;

use crate::auth::authenticate::Config;
use crate::auth::breaker::Breaker;
use crate::auth::denied::Unavailable;
use crate::auth::lookups::Lookups;
use crate::auth::metrics::Metrics;
use crate::catalogue::{self, Catalogue, Record};
use crate::device::DeviceId;

/// Devices as logins look them up.
pub(super) struct Records {
    lookups: Lookups,
    pub(super) cache: Cache<DeviceId, Cached>,
    breaker: Breaker,
    lookup_timeout: Duration,
    ttl: Duration,
    unknown_ttl: Duration,
    metrics: Metrics,
}

#[derive(Clone)]
pub(super) struct Cached {
    /// `None`: the database does not know the device.
    record: Option<Record>,
    expires: Instant,
}

impl Records {
    /// With an empty cache.
    pub(super) fn new(config: &Config, devices: Catalogue, metrics: Metrics) -> Self {
        Self {
            lookups: Lookups::new(devices),
            cache: Cache::new(config.cache_entries_max),
            breaker: Breaker::new(
                config.breaker_failures,
                Duration::from_millis(config.breaker_wait_ms),
            ),
            lookup_timeout: Duration::from_millis(config.lookup_timeout_ms),
            ttl: Duration::from_millis(config.cache_ttl_ms),
            unknown_ttl: Duration::from_millis(config.cache_unknown_ttl_ms),
            metrics,
        }
    }

    /// What the database holds about the device, within the time that a login may wait for it.
    ///
    /// # Errors
    /// [`Unavailable`] when there is no answer.
    pub(super) async fn find(
        &self,
        now: Instant,
        device: &DeviceId,
    ) -> Result<Option<Record>, Unavailable> {
        let begun = Instant::now();
        let found = tokio::time::timeout(self.lookup_timeout, self.record(now, device)).await;
        let found = found.unwrap_or(Err(Unavailable::Timeout(self.lookup_timeout)));
        // A secret that does not open is a matter of one device.
        if let Err(
            Unavailable::Database(catalogue::Error::Database(..)) | Unavailable::Timeout(_),
        ) = found
        {
            self.breaker.record(now + begun.elapsed(), false);
        }
        found
    }

    /// From the cache where it is fresh.
    ///
    /// The first login of a device that is not cached asks the database and the others wait for it; if it fails or is
    /// cancelled, one of the others asks.
    async fn record(&self, now: Instant, device: &DeviceId) -> Result<Option<Record>, Unavailable> {
        self.cache.remove_if(device, |cached| cached.expires <= now);
        let place = match self.cache.get_value_or_guard_async(device).await {
            Ok(cached) => {
                self.metrics.cache_hits.inc();
                return Ok(cached.record);
            }
            Err(place) => place,
        };
        self.metrics.cache_misses.inc();
        if !self.breaker.admits(now) {
            return Err(Unavailable::Broken);
        }
        let record = self.lookups.find(device).await?;
        self.breaker.record(now, true);
        let ttl = if record.is_some() {
            self.ttl
        } else {
            self.unknown_ttl
        };
        let cached = Cached {
            record,
            expires: now + ttl,
        };
        // A device that was forgotten meanwhile has no place any more: what was read may be older than that.
        drop(place.insert(cached.clone()));
        Ok(cached.record)
    }

    /// Forgets what is cached about a device; a look-up under way is not cached either.
    pub(super) fn forget(&self, device: &DeviceId) {
        self.cache.remove(device);
    }
}
