//! Waiting: on a future with a deadline, or on a condition that is asked again until it holds.
//!
//! The only place of the tests that sleeps: between two looks at a condition, or for as long as a fault is to last.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything may take before its test fails; far longer than anything should.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The future's output, or a panic that says what was waited for.
pub fn within<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    within_time(DEADLINE, what, future)
}

/// [`within`] a time of one's own, where a fault lasts longer than anything else may.
pub async fn within_time<T>(time: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match timeout(time, future).await {
        Ok(output) => output,
        Err(_elapsed) => panic!("waited {time:?} in vain for {what}"),
    }
}

/// Asks again until the condition is `Ok`, and returns what it holds; the panic after [`DEADLINE`] tells the last `Err`.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match within(what, condition()).await {
            Ok(holds) => return holds,
            Err(seen) if Instant::now() > deadline => {
                panic!("waited {DEADLINE:?} in vain until {what}; last seen: {seen}")
            }
            Err(_not_yet) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Lets a fault last. Not for waiting until something has happened: `eventually` knows when it has.
pub async fn lasting(fault: Duration) {
    sleep(fault).await;
}
