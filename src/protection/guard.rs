//! What connections ask before they let somebody in, and tell afterwards.
//!
//! The order is that of cost: the source address before a handshake is computed, rates and blocks before the authentication is asked,
//! the device's own limits behind it. A limit that is off costs a comparison.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::bans::{Ban, Bans, Blocked, Kind, Why};
use super::config::Config;
use super::places::{Places, Source, source};
use super::quota::{Allowance, Product, Quota};
use super::rate::{Bucket, Rate, nanos};
use super::refusals::{Reason, Refusals};
use crate::device::DeviceId;

/// Who wants to log in, by their own words.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// Where from; none through a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The client identifier.
    pub client_id: &'a str,
    /// The user name.
    pub username: Option<&'a str>,
}

impl Who<'_> {
    /// All by which they may be blocked.
    fn each(&self, mut look: impl FnMut(Kind, &str)) {
        if let Some(peer) = self.peer {
            look(Kind::Address, &source(peer).to_string());
        }
        if let Some(username) = self.username {
            look(Kind::Username, username);
        }
        look(Kind::ClientId, self.client_id);
    }
}

/// The limits of one node, and what of them is used.
#[derive(Debug)]
pub struct Protection {
    config: Config,
    /// Times of the buckets are counted from here.
    epoch: Instant,
    /// What was refused to whom.
    pub refusals: Refusals,
    bans: Bans,
    sources: Places<IpAddr, Source>,
    products: Places<Box<str>, Product>,
    connects: (Option<Rate>, Bucket),
    source_connects: Option<Rate>,
    /// Blocks that began.
    blocks: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Protection {
    /// Of a node that begins.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let rate = |per_s: u32| Rate::new(per_s.into(), Duration::from_secs(1), config.burst());
        Self {
            epoch: Instant::now(),
            refusals: Refusals::new(config.entries_max),
            bans: Bans::new(&config),
            sources: Places::default(),
            products: Places::default(),
            connects: (rate(config.connects_per_s), Bucket::default()),
            source_connects: rate(config.source_connects_per_s),
            blocks: Family::default(),
            config,
        }
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        // There from the start, so that the first one is seen to be one more.
        for kind in Kind::ALL {
            drop(self.blocks.get_or_create(&[("kind", kind.as_str())]));
        }
        for reason in Reason::ALL {
            self.refusals.count(reason, 0);
        }
        registry.register(
            "refusals",
            "What was refused, held back or dropped, by reason",
            self.refusals.counts(),
        );
        registry.register(
            "blocks",
            "Who was blocked for failed logins or for connecting too often, by kind",
            self.blocks.clone(),
        );
    }

    /// A place for a connection from this address, kept as long as it is; none where nobody counts.
    ///
    /// # Errors
    /// There is none left.
    pub fn enter(&self, peer: Option<SocketAddr>) -> Result<Option<Arc<Source>>, Reason> {
        let max = self.config.source_connections_max;
        let (Some(peer), true) = (peer, max > 0 || self.source_connects.is_some()) else {
            return Ok(None);
        };
        let place = self
            .sources
            .take(source(peer), max, self.now(), Source::default);
        if place.is_none() {
            self.refusals.count(Reason::SourceConnections, 1);
        }
        place.map(Some).ok_or(Reason::SourceConnections)
    }

    /// Before a login is looked at.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, source: Option<&Source>, who: &Who<'_>) -> Result<(), Reason> {
        let now = self.now();
        let mut blocked = false;
        who.each(|kind, value| blocked |= self.bans.why(kind, value, now).is_some());
        if blocked {
            return Err(Reason::Blocked);
        }
        let has_room = |rate: &Option<Rate>, bucket: &Bucket| match rate {
            Some(rate) => bucket.try_take(rate, now),
            None => true,
        };
        // One source that is too fast takes nothing of what all have.
        let fits = source.is_none_or(|source| has_room(&self.source_connects, &source.connects));
        let (rate, bucket) = &self.connects;
        match fits && has_room(rate, bucket) {
            true => Ok(()),
            false => Err(Reason::ConnectRate),
        }
    }

    /// A login was denied.
    pub fn denied(&self, who: &Who<'_>) {
        let now = self.now();
        who.each(|kind, value| {
            if let Some(blocked) = self.bans.count(kind, value, now) {
                self.say_blocked(kind, value, blocked);
            }
        });
    }

    /// A login was right: what its connection has of what is limited, `source` with it. `is_connected`: the device is connected here, and
    /// this connection takes its place.
    ///
    /// # Errors
    /// It is not let in all the same.
    pub fn admit(
        &self,
        who: &Who<'_>,
        device: &DeviceId,
        is_connected: bool,
        source: &mut Option<Arc<Source>>,
    ) -> Result<Option<Box<Allowance>>, Reason> {
        let now = self.now();
        self.bans.forgive(Kind::ClientId, who.client_id, now);
        if let Some(username) = who.username {
            self.bans.forgive(Kind::Username, username, now);
        }
        let name = device.to_string();
        match self.bans.why(Kind::Device, &name, now) {
            None => {}
            Some(Why::Flapping) => return Err(Reason::Flapping),
            Some(Why::Logins | Why::Operator) => return Err(Reason::Blocked),
        }
        if let Some(blocked) = self.bans.count(Kind::Device, &name, now) {
            self.say_blocked(Kind::Device, &name, blocked);
        }
        let quota = self.quota(device, is_connected, now)?;
        Ok(Allowance::new(quota, source.take()))
    }

    fn quota(
        &self,
        device: &DeviceId,
        is_connected: bool,
        now: u64,
    ) -> Result<Option<Quota>, Reason> {
        let limits = self.config.product(device.product());
        if limits.is_none() {
            return Ok(None);
        }
        let burst = self.config.burst();
        let max = match is_connected {
            true => 0,
            false => limits.connections_max,
        };
        let make = || Product::new(limits, burst);
        let place = self
            .products
            .take(device.product().into(), max, now, make)
            .ok_or(Reason::ProductConnections)?;
        Ok(Some(Quota::new(limits, burst, place, self.epoch)))
    }

    /// Who is blocked.
    #[must_use]
    pub fn bans(&self) -> Vec<Ban> {
        self.bans.list(self.now())
    }

    /// Blocks somebody for a time, whatever there was before.
    pub fn ban(&self, kind: Kind, value: &str, time: Duration) {
        self.bans.add(kind, &known(kind, value), time, self.now());
    }

    /// Lets somebody in again; whether they were blocked.
    pub fn lift(&self, kind: Kind, value: &str) -> bool {
        self.bans.lift(kind, &known(kind, value), self.now())
    }

    fn say_blocked(&self, kind: Kind, value: &str, blocked: Blocked) {
        self.blocks.get_or_create(&[("kind", kind.as_str())]).inc();
        let (kind, seconds) = (kind.as_str(), blocked.time.as_secs());
        tracing::warn!(kind, value, seconds, "blocked");
    }

    fn now(&self) -> u64 {
        nanos(self.epoch.elapsed())
    }
}

/// An address as it is counted, whichever of its network an operator wrote.
fn known(kind: Kind, value: &str) -> Cow<'_, str> {
    match (kind, value.parse::<IpAddr>()) {
        (Kind::Address, Ok(address)) => source(SocketAddr::new(address, 0)).to_string().into(),
        _ => value.into(),
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
