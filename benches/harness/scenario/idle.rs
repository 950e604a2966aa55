//! Devices that are connected and do nothing: memory of each watched process, at several numbers of them.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use super::measuring::{Measured, connect};
use crate::arguments::Arguments;
use crate::process::resident_bytes;
use crate::target::Target;

/// Numbers of connections at which memory is read.
const STEPS: usize = 4;
/// What the first ones bring to life is not a connection's.
const FIRST: usize = 100;
/// Memory is quiet when it has moved less than this in so many looks: allocators give back within ten seconds what was freed.
const QUIET_BYTES: f64 = 256.0 * 1024.0;
const QUIET_LOOKS: usize = 24;
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const QUIET_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let first = FIRST.min(arguments.devices / 2);
    let mut clients = connect(target, arguments, 0..first).await?;
    let begin = quiet(target).await?;
    let mut measured = Measured::default();
    let begun = std::time::Instant::now();
    let (mut last, mut before) = (first, begin.clone());
    for step in 1..=STEPS {
        let goal = first + (arguments.devices - first) * step / STEPS;
        clients.extend(connect(target, arguments, clients.len()..goal).await?);
        let now = quiet(target).await?;
        let each =
            |now: f64, before: f64, since: usize| (now - before) / (goal - since).max(1) as f64;
        for (index, (name, _)) in target.watched.iter().enumerate() {
            let at = |looked: &[f64]| looked.get(index).copied().unwrap_or_default();
            let all = each(at(&now), at(&begin), first);
            let more = each(at(&now), at(&before), last);
            measured.figures.extend([
                (
                    format!("{name}, memory per connection at {goal}"),
                    all,
                    "bytes",
                ),
                (format!("{name}, of each since {last}"), more, "bytes"),
            ]);
        }
        (last, before) = (goal, now);
    }
    measured.elapsed = begun.elapsed();
    Ok(measured)
}

/// Resident memory of each watched process, once none of them moves any more.
async fn quiet(target: &Target) -> Result<Vec<f64>> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut looks: Vec<Vec<f64>> = Vec::new();
    while Instant::now() < deadline {
        let now: Result<Vec<f64>> = target
            .watched
            .iter()
            .map(|(_, pid)| resident_bytes(*pid))
            .collect();
        let now = now?;
        let is_still = |look: &Vec<f64>| {
            let moved = look
                .iter()
                .zip(&now)
                .map(|(before, now)| (before - now).abs());
            moved.fold(0.0, f64::max) < QUIET_BYTES
        };
        if !looks.iter().all(is_still) {
            looks.clear();
        }
        looks.push(now);
        if looks.len() > QUIET_LOOKS {
            break;
        }
        sleep(LOOK_INTERVAL).await;
    }
    if looks.len() <= QUIET_LOOKS {
        eprintln!("memory did not come to rest within {QUIET_WITHIN:?}: its last value counts");
    }
    looks.pop().context("a look")
}
