//! Times of answers, in microseconds, and their percentiles.
//!
//! In an open loop a time begins when the message was due, not when it was sent: what a slow server keeps waiting counts
//! (coordinated omission).

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// One answer: when, since the measuring began, and after how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at_ms: u32,
    pub(crate) micros: u32,
}

impl Sample {
    pub(crate) fn new(at: Duration, took: Duration) -> Self {
        Self {
            at_ms: u32::try_from(at.as_millis()).unwrap_or(u32::MAX),
            micros: u32::try_from(took.as_micros()).unwrap_or(u32::MAX),
        }
    }
}

/// Percentiles of many samples, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// None without samples.
    pub(crate) fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<Self> {
        let mut histogram = Histogram::<u32>::new(3).ok()?;
        for sample in samples {
            histogram.record(u64::from(sample.micros).max(1)).ok()?;
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        })
    }
}

/// What one second was like.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Second {
    pub(crate) answers: u64,
    pub(crate) latency: Latency,
}

/// Each second by itself, from the first one.
pub(crate) fn seconds(samples: &[Sample]) -> Vec<Second> {
    let mut by_second: Vec<Vec<Sample>> = Vec::new();
    for sample in samples {
        let second = (sample.at_ms / 1_000) as usize;
        if by_second.len() <= second {
            by_second.resize_with(second + 1, Vec::new);
        }
        if let Some(own) = by_second.get_mut(second) {
            own.push(*sample);
        }
    }
    let second = |own: &Vec<Sample>| Second {
        answers: own.len() as u64,
        latency: Latency::of(own.iter()).unwrap_or_default(),
    };
    by_second.iter().map(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_seconds_are_those_of_the_samples() {
        let sample = |number: u32| Sample {
            at_ms: number * 2,
            micros: number * 1_000,
        };
        let samples: Vec<Sample> = (1..=1_000).map(sample).collect();
        let latency = Latency::of(samples.iter()).unwrap();
        for (found, expected) in [
            (latency.p50, 500.0),
            (latency.p90, 900.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
            (latency.max, 1_000.0),
        ] {
            assert!((found - expected).abs() / expected < 0.002, "{latency:?}");
        }
        let seconds = seconds(&samples);
        let answers: Vec<u64> = seconds.iter().map(|second| second.answers).collect();
        assert_eq!(answers, [499, 500, 1]);
        assert_eq!(Latency::of([].iter()), None);
    }
}
