//! A stored message to what it says of positions: whose it is, whether it is this shard's, what the rules find.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::queue::{Created, Death, Found, Input};
use super::watched::Watched;
use crate::event::{self, Fault};
use crate::jetstream::Stored;
use crate::mapping::{Mapping, StoredUplink};
use crate::position::{Extraction, Source, extract};

/// The reason of a dead letter on which the rules failed.
const INTERNAL: &str = "internal";

/// Reads messages of the source stream for one shard.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) mapping: Arc<Mapping>,
    pub(super) watched: Arc<Watched>,
    pub(super) source: Arc<str>,
    pub(super) shard: u32,
    pub(super) shards: u32,
}

impl Reading {
    /// What a message says.
    pub(super) fn read(&self, created: &Created, stored: &Stored) -> Input {
        let uplink = self.mapping.stored_uplink(&stored.message);
        let own = uplink.filter(|uplink| uplink.device.shard(self.shards) == self.shard);
        Input {
            created: created.clone(),
            sequence: stored.sequence,
            found: own.and_then(|uplink| self.find(&uplink, stored)),
        }
    }

    fn find(&self, uplink: &StoredUplink<'_>, stored: &Stored) -> Option<Found> {
        // One without a payload is the event workers' dead letter.
        let payload = uplink.payload.as_ref()?;
        let received_ms = uplink.received_ms.unwrap_or(stored.time_ms);
        let source = Source {
            device: &uplink.device,
            type_: &uplink.kind,
            handle: uplink.handle,
            received_ms,
        };
        let may_act_for = |device: &_| uplink.sub_devices.contains(device);
        let run = || extract(payload, &source, &self.watched.rules, &may_act_for);
        // A message that the rules cannot stand does not stop the ones behind it.
        let Extraction { reports, faults } =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_panic| Extraction {
                reports: Vec::new(),
                faults: vec![Fault::new(INTERNAL, "", "expected nothing that fails")],
            });
        if reports.is_empty() && faults.is_empty() {
            return None;
        }
        let traceparent = match &uplink.traceparent {
            Some(traceparent) => traceparent.to_string(),
            None => event::derived_trace(received_ms, &self.source, stored.sequence),
        };
        Some(Found {
            message: stored.message.clone(),
            device: uplink.device.clone(),
            received_ms,
            traceparent,
            reports,
            death: death(faults),
        })
    }
}

/// One dead letter tells the first fault, and how many there are.
fn death(faults: Vec<Fault>) -> Option<Death> {
    let more = faults.len().saturating_sub(1);
    let Fault { reason, path, rule } = faults.into_iter().next()?;
    let rule = match more {
        0 => rule,
        more => format!("{rule} (and {more} more)"),
    };
    Some(Death { reason, path, rule })
}
