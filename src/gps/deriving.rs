//! Inputs to what is written of them: rows, latest positions, tracks, events. Pure.
//!
//! The same inputs, latest positions and tracks give the same: who begins again at the cursor writes the same rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::event::{self, Origin};
use super::queue::{Found, Input};
use super::store::Row;
use crate::device::DeviceId;
use crate::outbox::store::Event;
use crate::position::{Change, Flags, Report, Track, Watching};

/// What is known of devices; goes on with what is derived.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// When the latest valid fix was, Unix milliseconds.
    pub(super) latest: HashMap<DeviceId, u64>,
    pub(super) tracks: HashMap<DeviceId, Track>,
}

/// What is written.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// In the order of the messages.
    pub(super) rows: Vec<Row>,
    /// The newest fix of each device that has a new one, in the order of devices: who locks them, does it in that order.
    pub(super) newest: BTreeMap<DeviceId, Row>,
    /// The devices whose track moved, in the same order.
    pub(super) moved: BTreeSet<DeviceId>,
    /// In order, of each device.
    pub(super) events: Vec<Event>,
    /// How many reports have no fix, are late, and are left out by sampling.
    pub(super) no_fix: u64,
    pub(super) late: u64,
    pub(super) sampled_out: u64,
}

/// The devices of these inputs, each once.
pub(super) fn devices(inputs: &[Input]) -> Vec<&DeviceId> {
    let found = inputs.iter().filter_map(|input| input.found.as_ref());
    let mut devices: Vec<_> = found
        .flat_map(|found| &found.reports)
        .map(|report| &report.device)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// What is to be written of inputs from this stream, of whose devices everything is known.
pub(super) fn derive(
    inputs: &[Input],
    known: &mut Known,
    stream: &str,
    watching: Option<&Watching<'_>>,
) -> Derived {
    let mut deriving = Deriving {
        known,
        watching,
        derived: Derived::default(),
    };
    for input in inputs {
        let Some(found) = &input.found else { continue };
        let origin = Origin {
            stream,
            sequence: input.sequence,
            received_ms: found.received_ms,
            trace_id: found.traceparent.get(3..35).unwrap_or_default(),
        };
        deriving.add(input, found, &origin);
    }
    deriving.derived
}

struct Deriving<'w> {
    known: &'w mut Known,
    watching: Option<&'w Watching<'w>>,
    derived: Derived,
}

impl Deriving<'_> {
    fn add(&mut self, input: &Input, found: &Found, origin: &Origin<'_>) {
        for report in &found.reports {
            let latest = self.known.latest.get(&report.device).copied();
            let (late, is_newer) = (report.is_late(latest), report.is_newer(latest));
            let (changes, is_kept) = self.step(report, is_newer);
            let created = event::created(origin, report, late);
            let row = row(report, created.event_id, late, input);
            let derived = &mut self.derived;
            derived.no_fix += u64::from(report.flags.contains(Flags::NO_FIX));
            derived.late += u64::from(late);
            if is_newer {
                self.known
                    .latest
                    .insert(report.device.clone(), report.at_ms());
                derived.newest.insert(report.device.clone(), row.clone());
            }
            if is_kept {
                derived.rows.push(row);
                derived.events.push(created);
            } else {
                derived.sampled_out += 1;
            }
            let changes = changes.iter();
            derived
                .events
                .extend(changes.map(|change| event::changed(origin, report, change)));
        }
    }

    /// Goes on with the report's track, if anything is watched: what that tells, and whether the report is kept.
    fn step(&mut self, report: &Report, is_newer: bool) -> (Vec<Change>, bool) {
        let Some(watching) = self.watching.filter(|_| is_newer) else {
            return (Vec::new(), true);
        };
        self.derived.moved.insert(report.device.clone());
        let track = self.known.tracks.entry(report.device.clone());
        let track = track.or_default();
        let step = track.step(report, watching);
        (step.changes, step.is_kept)
    }
}

fn row(report: &Report, event_id: uuid::Uuid, late: bool, input: &Input) -> Row {
    let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    Row {
        event_id,
        device: report.device.clone(),
        at_ms: ms(report.at_ms()),
        device_ms: report.device_ms.map(ms),
        received_ms: ms(report.received_ms),
        latitude: report.latitude,
        longitude: report.longitude,
        system: report.system.number(),
        altitude_m: report.altitude_m,
        speed_mps: report.speed_mps,
        course_deg: report.course_deg,
        satellites: report.satellites.map(i32::from),
        hdop: report.hdop,
        accuracy_m: report.accuracy_m,
        flags: report.flags.bits().into(),
        late,
        stream_created_ns: input.created.ns,
        sequence: ms(input.sequence),
        point: i32::try_from(report.index).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
#[path = "deriving_tests.rs"]
mod tests;
