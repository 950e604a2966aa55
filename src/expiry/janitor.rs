//! What waits for devices that do not come back: when its lifetime is over it is reported and removed (G31).
//!
//! One node does it, the holder of a lease. It asks nobody about devices: it reads the head of the stream, where the oldest are,
//! and the messages whose senders gave them a lifetime when that ends. A device that is connected is left to its connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::downlink::{Config, Finished, Lifetimes, Outcome};
use crate::jetstream::bucket::{self, Bucket, Expect};
use crate::jetstream::{ReadError, Reader, Stored};
use crate::mapping::Mapping;
use crate::ownership::{self, Ownership, Standing};
use crate::telemetry;

/// The key of the lease in the bucket of nodes, whose keys have one token.
const LEASE: &str = "downlink.janitor";
const LEASE_TIME: Duration = Duration::from_secs(10);
/// How often lifetimes are looked at; the lease is renewed every few times.
const TICK: Duration = Duration::from_millis(500);
const TICKS_TO_RENEW: u32 = 6;
/// How often the head of the stream is looked at, at most.
const SWEEP_MAX: Duration = Duration::from_secs(60);
/// When a message for a connected device is looked at again.
const LATER_MS: u64 = 60_000;
/// How long until JetStream is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// Watches lifetimes while it holds the lease.
pub struct Janitor {
    /// How long messages may wait.
    pub config: Config,
    /// Where the lease is.
    pub nodes: Bucket,
    /// This node.
    pub node: Box<str>,
    /// The delivery stream.
    pub reader: Reader,
    /// Whose a message is.
    pub mapping: Arc<Mapping>,
    /// What devices have taken.
    pub ownership: Ownership,
    /// What becomes of what they have not.
    pub finished: Finished,
    /// Filled by the feed.
    pub lifetimes: Lifetimes,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Ownership(#[from] ownership::Error),
}

impl Janitor {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.work() => {}
        }
    }

    async fn work(&self) {
        let mut lease = None;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut until_renewal = 0;
        let mut next_sweep = Instant::now();
        let sweep = Duration::from_secs(self.config.lifetime_max_s / 4).clamp(TICK, SWEEP_MAX);
        loop {
            ticks.tick().await;
            if until_renewal == 0 {
                until_renewal = TICKS_TO_RENEW;
                lease = self.hold(lease).await;
            }
            until_renewal -= 1;
            if lease.is_none() {
                continue;
            }
            let mut done = self.expire_ended().await;
            if done.is_ok() && self.lifetimes.lacks_some() {
                self.lifetimes.watch(true);
                done = self.find_lifetimes().await;
            }
            if done.is_ok() && Instant::now() >= next_sweep {
                next_sweep = Instant::now() + sweep;
                done = self.sweep_head().await;
            }
            if let Err(error) = done {
                tracing::debug!(%error, "lifetimes not looked at");
            }
        }
    }

    /// Takes or renews the lease: its revision while this node holds it.
    async fn hold(&self, lease: Option<u64>) -> Option<u64> {
        let held = match self.write_lease(lease).await {
            Ok(revision) => revision,
            Err(error) => {
                tracing::debug!(%error, "lease of the janitor not held");
                None
            }
        };
        match (lease, held) {
            (None, Some(_)) => {
                self.lifetimes.watch(true);
                while let Err(error) = self.find_lifetimes().await {
                    tracing::debug!(%error, "lifetimes not found yet");
                    sleep(RETRY).await;
                }
            }
            (Some(_), None) => self.lifetimes.watch(false),
            _ => {}
        }
        held
    }

    /// None: another node has it.
    async fn write_lease(&self, lease: Option<u64>) -> Result<Option<u64>, bucket::Error> {
        let own = |value: &Bytes| **value == *self.node.as_bytes();
        let expected = match lease {
            Some(revision) => Expect::Revision(revision),
            None => match self.nodes.get_from_leader(LEASE).await? {
                None => Expect::Absent,
                Some(entry) if entry.value.as_ref().is_none_or(own) => {
                    Expect::Revision(entry.revision)
                }
                Some(_) => return Ok(None),
            },
        };
        let node = Bytes::copy_from_slice(self.node.as_bytes());
        let nodes = &self.nodes;
        let written = nodes.put(LEASE, node, expected, Some(LEASE_TIME)).await?;
        Ok(Some(written))
    }

    /// Reads all that waits, for the lifetimes it has.
    async fn find_lifetimes(&self) -> Result<(), Error> {
        let mut all = self.reader.walk(self.mapping.delivery.filters.clone());
        loop {
            let page = all.next_page().await?;
            if page.is_empty() {
                return Ok(());
            }
            for stored in &page {
                if let Some(expiry) = self.mapping.expiry(&stored.message) {
                    self.lifetimes.add(expiry.unix_ms, stored.sequence);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn expire_ended(&self) -> Result<(), Error> {
        let ended = self.lifetimes.take_ended(telemetry::now_unix_ms());
        for (at, sequence) in ended.iter().enumerate() {
            if let Err(error) = self.expire_at(*sequence).await {
                let now = telemetry::now_unix_ms();
                let rest = ended.iter().skip(at);
                rest.for_each(|sequence| self.lifetimes.add(now, *sequence));
                return Err(error);
            }
        }
        Ok(())
    }

    async fn expire_at(&self, sequence: u64) -> Result<(), Error> {
        match self.reader.at(sequence).await? {
            Some(stored) => self.expire(&stored).await,
            None => Ok(()),
        }
    }

    /// The oldest are first.
    async fn sweep_head(&self) -> Result<(), Error> {
        let now = telemetry::now_unix_ms();
        let mut oldest = self.reader.walk(self.mapping.delivery.filters.clone());
        loop {
            let page = oldest.next_page().await?;
            let is_end = page.is_empty();
            for stored in &page {
                if self.config.waits_until_ms(stored.time_ms) > now {
                    return Ok(());
                }
                self.expire(stored).await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn expire(&self, stored: &Stored) -> Result<(), Error> {
        let Some(device) = self.mapping.receiver(&stored.message.subject) else {
            return Ok(());
        };
        let key = Mapping::device_tokens(&device);
        match self.ownership.standing(&key).await? {
            Some(standing) if standing.node.is_some() || self.is_kept_half(&standing, stored) => {
                let later = telemetry::now_unix_ms() + LATER_MS;
                self.lifetimes.add(later, stored.sequence);
            }
            Some(standing) if self.has(&standing, stored) => {
                self.finished.delivered(stored.sequence);
            }
            _ => {
                self.finished
                    .give_up(&device, stored, Outcome::Expired)
                    .await;
            }
        }
        Ok(())
    }

    /// Whether the device may have half of the message: then its sender's lifetime does not end it [MQTT-4.3.3-7], but the longest
    /// time that anything may wait does.
    fn is_kept_half(&self, standing: &Standing, stored: &Stored) -> bool {
        let inflight = standing
            .session
            .iter()
            .flat_map(|session| &session.inflight);
        let mut half = inflight.filter(|known| known.qos == 2);
        self.config.waits_until_ms(stored.time_ms) > telemetry::now_unix_ms()
            && half.any(|known| known.source.sequence() == Some(stored.sequence))
    }

    /// Whether the session was handed the message, and is done with it.
    fn has(&self, standing: &Standing, stored: &Stored) -> bool {
        let Some(session) = &standing.session else {
            return false;
        };
        let selects = |filter: &str| {
            let subjects = self.mapping.subscription(filter);
            subjects.is_some_and(|subjects| subjects.contains(&stored.message.subject))
        };
        let mut subscriptions = session.subscriptions.iter();
        let was_for_it =
            subscriptions.any(|known| known.since < stored.sequence && selects(&known.filter));
        let mut inflight = session.inflight.iter();
        was_for_it
            && stored.sequence <= session.taken
            && !inflight.any(|known| known.source.sequence() == Some(stored.sequence))
    }
}
