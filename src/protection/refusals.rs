//! What was refused to whom, and how often: the answer to "why does this device not get through".
//!
//! A device has one line for each reason, with how often and when it was last, so that nobody can fill it. Tables are bounded, the
//! ones that are looked at least make room. What somebody only claimed to be is kept apart: a stranger pushes out no device that
//! has proved itself.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};

use crate::device::DeviceId;
use crate::mqtt::ReasonCode;
use crate::telemetry;

/// Of what is told about the last one; the rest is cut.
const DETAIL_BYTES_MAX: usize = 200;

/// Why something was refused, held back or dropped; the set is fixed (G38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Too many connections from a source address.
    SourceConnections,
    /// Too many CONNECTs in a second, of all or of a source address.
    ConnectRate,
    /// Blocked.
    Blocked,
    /// A device connects too often.
    Flapping,
    /// Too many connections of a product.
    ProductConnections,
    /// A login that was denied.
    Login,
    /// A PUBLISH that was denied, or that cannot be mapped.
    Publish,
    /// A PUBLISH that the stream refused.
    NotStored,
    /// A topic filter that was refused.
    Subscription,
    /// A PUBLISH held back because the device sent too much.
    DeviceRate,
    /// A PUBLISH held back because the devices of the product sent too much.
    ProductRate,
    /// A QoS 0 PUBLISH that was dropped for want of room.
    Shed,
    /// A connection that was ended because of what the device did or did not do.
    Closed,
}

impl Reason {
    /// All of them.
    pub(super) const ALL: [Self; 13] = [
        Self::SourceConnections,
        Self::ConnectRate,
        Self::Blocked,
        Self::Flapping,
        Self::ProductConnections,
        Self::Login,
        Self::Publish,
        Self::NotStored,
        Self::Subscription,
        Self::DeviceRate,
        Self::ProductRate,
        Self::Shed,
        Self::Closed,
    ];

    /// Its name in metrics and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SourceConnections => "source_connections",
            Self::ConnectRate => "connect_rate",
            Self::Blocked => "blocked",
            Self::Flapping => "flapping",
            Self::ProductConnections => "product_connections",
            Self::Login => "login",
            Self::Publish => "publish",
            Self::NotStored => "not_stored",
            Self::Subscription => "subscription",
            Self::DeviceRate => "device_rate",
            Self::ProductRate => "product_rate",
            Self::Shed => "shed",
            Self::Closed => "closed",
        }
    }

    /// What CONNACK says where this refuses a CONNECT; 3.1.1 has return code 5 for who is blocked, and 3 for all others.
    #[must_use]
    pub fn connack(self) -> ReasonCode {
        match self {
            Self::Blocked => ReasonCode::Banned,
            Self::ConnectRate | Self::Flapping => ReasonCode::ConnectionRateExceeded,
            _ => ReasonCode::QuotaExceeded,
        }
    }
}

/// What was refused to a device for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// How often.
    pub count: u64,
    /// The last time, Unix milliseconds.
    pub at_ms: u64,
    /// What it was the last time: a topic, a reason.
    pub detail: String,
}

type Table = Cache<DeviceId, Arc<Mutex<Vec<Refusal>>>>;

/// What was refused on this node.
#[derive(Debug)]
pub struct Refusals {
    proved: Table,
    claimed: Table,
    counts: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Refusals {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            proved: Cache::new(entries_max),
            claimed: Cache::new(entries_max),
            counts: Family::default(),
        }
    }

    pub(super) fn counts(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.counts.clone()
    }

    /// Counts what was refused to nobody that is known.
    pub(super) fn count(&self, reason: Reason, times: u64) {
        let labels = [("reason", reason.as_str())];
        self.counts.get_or_create(&labels).inc_by(times);
    }

    /// Remembers what was refused to a device that has proved itself.
    pub fn note(&self, device: &DeviceId, reason: Reason, times: u64, detail: &str) {
        self.count(reason, times);
        note(&self.proved, device, reason, times, detail);
    }

    /// Remembers what was refused to somebody who says to be this device, or to be none that there can be.
    pub fn note_claimed(&self, device: Option<&DeviceId>, reason: Reason, detail: &str) {
        self.count(reason, 1);
        if let Some(device) = device {
            note(&self.claimed, device, reason, 1, detail);
        }
    }

    /// What was refused to a device, the last one first.
    #[must_use]
    pub fn of(&self, device: &DeviceId) -> Vec<Refusal> {
        let mut all = Vec::new();
        for table in [&self.proved, &self.claimed] {
            if let Some(found) = table.get(device) {
                all.extend_from_slice(&found.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
        all.sort_by_key(|refusal| std::cmp::Reverse(refusal.at_ms));
        all
    }
}

fn note(table: &Table, device: &DeviceId, reason: Reason, times: u64, detail: &str) {
    let known = match table.get(device) {
        Some(known) => known,
        None => {
            let new = Arc::default();
            table.insert(device.clone(), Arc::clone(&new));
            new
        }
    };
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let at_ms = telemetry::now_unix_ms();
    let end = detail.floor_char_boundary(DETAIL_BYTES_MAX);
    let detail = detail.get(..end).unwrap_or_default();
    match known.iter_mut().find(|refusal| refusal.reason == reason) {
        Some(refusal) => {
            refusal.count += times;
            refusal.at_ms = at_ms;
            detail.clone_into(&mut refusal.detail);
        }
        None => known.push(Refusal {
            reason,
            count: times,
            at_ms,
            detail: detail.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> DeviceId {
        DeviceId::new("P", name).unwrap()
    }

    #[test]
    fn a_device_has_one_line_for_each_reason() {
        let (refusals, device) = (Refusals::new(10), device("D"));
        for number in 0..1_000 {
            refusals.note(&device, Reason::Publish, 1, &format!("topic/{number}"));
        }
        refusals.note(&device, Reason::Shed, 7, "");
        refusals.note_claimed(Some(&device), Reason::Login, "mismatch");
        let mut of = refusals.of(&device);
        of.sort_by_key(|refusal| refusal.count);
        let told = of
            .iter()
            .map(|refusal| (refusal.reason, refusal.count, &*refusal.detail));
        let expected = [
            (Reason::Login, 1, "mismatch"),
            (Reason::Shed, 7, ""),
            (Reason::Publish, 1_000, "topic/999"),
        ];
        assert!(told.eq(expected), "{of:?}");
        let labels = [("reason", "publish")];
        assert_eq!(refusals.counts().get_or_create(&labels).get(), 1_000);
    }

    #[test]
    fn strangers_push_out_no_device_that_has_proved_itself() {
        let refusals = Refusals::new(10);
        refusals.note(&device("D"), Reason::Publish, 1, &"ü".repeat(500));
        for number in 0..1_000 {
            let claimed = device(&format!("x{number}"));
            refusals.note_claimed(Some(&claimed), Reason::Login, "unknown device");
        }
        assert_eq!(refusals.of(&device("D"))[0].detail.len(), DETAIL_BYTES_MAX);
        assert!(refusals.claimed.len() <= 10);
    }
}
