//! Runs a job again and again, on one of all nodes that have a scheduler.
//!
//! The first run is due at the start, unless the last one, of whichever node, began less than an interval ago. A run that takes
//! longer than the interval delays the next one; ticks that were missed are not made up for.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::run::{Cause, Request};
use super::runner::{Jobs, Start};

/// Between two tries for a lock that another run has, or of a database that does not answer.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Runs `name` each `interval` until the node stops; a run that is under way then writes its end first.
pub async fn run(jobs: Jobs, name: &'static str, interval: Duration) {
    let pause = PAUSE_MAX.min(interval).min(jobs.store.lease() / 3);
    while !jobs.stop.is_cancelled() {
        let begun = Instant::now();
        let request = Request::new(name, "", Cause::Schedule(interval));
        let next = match jobs.start(request).await {
            Ok(Start::Started(started)) => {
                started.finish().await;
                begun + interval
            }
            Ok(Start::NotDue { after }) => begun + after,
            Ok(Start::Busy { .. }) => begun + pause,
            Err(error) => {
                tracing::debug!(job = name, error = error.in_words(), "not scheduled");
                begun + pause
            }
        };
        jobs.stop.run_until_cancelled(sleep_until(next)).await;
    }
}
