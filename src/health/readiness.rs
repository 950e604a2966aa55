//! Whether this node can store what devices send (G38).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use crate::jetstream::provision::{self, Stream};
use crate::jetstream::{Link, Publisher};

/// For how long a shard may be without an answer before the node is not ready, in seconds.
pub(super) const STALL_SECONDS_MAX: i64 = 5;

/// How long readiness waits for JetStream: a prober gives up soon, and a node that cannot ask is not ready.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// What readiness depends on; cheap to clone.
#[derive(Clone)]
pub struct Readiness {
    /// The NATS connection.
    pub link: Link,
    /// The streams that must exist.
    pub streams: Arc<[Stream]>,
    /// The uplink's publisher; none without devices.
    pub uplink: Option<Publisher>,
    /// Set when the drain begins.
    pub draining: Arc<AtomicBool>,
}

impl Readiness {
    /// Everything that keeps this node from storing; empty when it is ready.
    pub async fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        if self.is_draining() {
            obstacles.push("draining".to_owned());
        }
        if !self.link.is_connected() {
            obstacles.push("NATS is not connected".to_owned());
            return obstacles;
        }
        let missing = provision::missing(&self.link, &self.streams);
        match timeout(ANSWER_WITHIN, missing).await {
            Ok(Ok(missing)) => obstacles.extend(
                missing
                    .iter()
                    .map(|name| format!("stream {name} is missing")),
            ),
            Ok(Err(error)) => obstacles.push(error.to_string()),
            Err(_) => obstacles.push("JetStream does not answer".to_owned()),
        }
        let stalled = self.stalled_seconds();
        if stalled >= STALL_SECONDS_MAX {
            obstacles.push(format!(
                "the uplink stream has not answered for {stalled} s"
            ));
        }
        obstacles
    }

    /// For how long the uplink's shards have had no answer.
    pub(super) fn stalled_seconds(&self) -> i64 {
        let uplink = self.uplink.as_ref();
        uplink.map_or(0, Publisher::stalled_seconds)
    }

    /// Whether it stops, which is no fault.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
