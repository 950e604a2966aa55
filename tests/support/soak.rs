//! Tests that go on for as long as one likes, and random choices that can be had again.

use std::env;
use std::time::{Duration, Instant};

/// `JETWAY_SOAK_SECONDS`: how long a soak lasts, or `None` for the fast form of a test.
pub fn soak() -> Option<Duration> {
    let seconds = env::var("JETWAY_SOAK_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// Whether a test with `rounds` faults goes on to the next one; in a soak, time decides.
pub fn goes_on(started: Instant, round: usize, rounds: usize) -> bool {
    match soak() {
        Some(soak) => started.elapsed() < soak,
        None => round < rounds,
    }
}

/// Random numbers from a seed that is printed, so that a run can be had again with `JETWAY_SEED`.
pub struct Random(u64);

impl Random {
    /// A seed of its own, or that of `JETWAY_SEED`.
    pub fn new(test: &str) -> Self {
        let seed = env::var("JETWAY_SEED")
            .ok()
            .map(|seed| seed.parse().unwrap());
        let seed = seed.unwrap_or_else(jetway::telemetry::random_u64) | 1;
        println!("{test}: JETWAY_SEED={seed}");
        Self(seed)
    }

    /// One of `0..below` (xorshift).
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Choices of its own, for somebody beside.
    pub fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX) | 1)
    }
}
