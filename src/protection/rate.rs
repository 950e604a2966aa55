//! A token bucket of one word (GCRA): when what was taken will have been earned.
//!
//! Time is nanoseconds of whatever clock the caller has. What is larger than the bucket passes once there is room for one unit, and what
//! follows waits for it: so no size is refused for ever, and the rate holds in the long run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many units in a period, of which some may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    units: u64,
    period_ns: u64,
    burst_ns: u64,
}

impl Rate {
    /// `burst` is the time whose units may come at once, at least one unit; none if `units` is 0, which is no limit.
    pub(super) fn new(units: u64, period: Duration, burst: Duration) -> Option<Self> {
        let rate = Self {
            units: Some(units).filter(|units| *units > 0)?,
            period_ns: nanos(period),
            burst_ns: 0,
        };
        let burst_ns = nanos(burst).max(rate.cost(1));
        Some(Self { burst_ns, ..rate })
    }

    fn cost(&self, units: u64) -> u64 {
        units.saturating_mul(self.period_ns) / self.units
    }
}

/// Full at the beginning; shared without a lock.
#[derive(Debug, Default)]
pub(super) struct Bucket(AtomicU64);

impl Bucket {
    /// From when on there is room for one unit; what is taken by then does not count.
    pub(super) fn ready_at(&self, rate: &Rate) -> u64 {
        let earned = self.0.load(Ordering::Relaxed);
        earned
            .saturating_add(rate.cost(1))
            .saturating_sub(rate.burst_ns)
    }

    /// Takes units, whether there is room or not.
    pub(super) fn take(&self, rate: &Rate, units: u64, now: u64) {
        // Two steps: whoever comes between them only takes a little earlier.
        self.0.fetch_max(now, Ordering::Relaxed);
        self.0.fetch_add(rate.cost(units), Ordering::Relaxed);
    }

    /// Takes a unit if there is room; whether there was.
    pub(super) fn try_take(&self, rate: &Rate, now: u64) -> bool {
        let has_room = self.ready_at(rate) <= now;
        if has_room {
            self.take(rate, 1, now);
        }
        has_room
    }

    /// Whether it is as full as at the beginning.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: u64 = 5_000_000_000;

    fn rate(units: u64, burst_ms: u64) -> Rate {
        Rate::new(units, SECOND, Duration::from_millis(burst_ms)).unwrap()
    }

    #[test]
    fn what_may_come_at_once_comes_and_then_what_is_earned() {
        let (rate, bucket) = (rate(10, 500), Bucket::default());
        let taken = |now| (0..100).filter(|_| bucket.try_take(&rate, now)).count();
        assert_eq!(taken(NOW), 5);
        assert_eq!(bucket.ready_at(&rate), NOW + 100_000_000);
        assert_eq!(taken(NOW + 99_999_999), 0);
        assert_eq!(taken(NOW + 100_000_000), 1);
        assert_eq!(taken(NOW + 300_000_000), 2);
        assert!(!bucket.is_full(NOW + 300_000_000));
        // No more is kept than may come at once.
        assert_eq!(taken(NOW + 60_000_000_000), 5);
    }

    #[test]
    fn the_rate_holds_in_the_long_run() {
        let (rate, bucket) = (rate(1_000, 1_000), Bucket::default());
        let ticks = (0..100_000).map(|tick| NOW + tick * 100_000);
        let taken = ticks.filter(|now| bucket.try_take(&rate, *now)).count();
        assert_eq!(taken, 1_000 + 9_999, "in 10 s, with what came at once");
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_and_is_paid_for() {
        let (rate, bucket) = (rate(1_000, 1_000), Bucket::default());
        bucket.take(&rate, 1_000_000, NOW);
        assert_eq!(
            bucket.ready_at(&rate),
            NOW + 999 * 1_000_000_000 + 1_000_000
        );
        bucket.take(&rate, u64::MAX, NOW);
        assert!(bucket.ready_at(&rate) > NOW, "no overflow");
    }

    #[test]
    fn no_limit_is_none_and_one_unit_always_fits() {
        assert_eq!(Rate::new(0, SECOND, SECOND), None);
        assert!(Bucket::default().try_take(&rate(1, 0), NOW));
    }
}
