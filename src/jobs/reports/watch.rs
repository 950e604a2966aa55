//! What rules find in the way of one device: too fast, at a stand, into and out of fences; each incident once. Without I/O.
//!
//! Only newer valid fixes count: late points and those without a fix neither begin nor end anything.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::event::event;
use super::rules::SpeedRule;
use crate::device::DeviceId;
use crate::event::Timestamp;
use crate::jobs::config::Config;
use crate::mapping::GpsEvent;
use crate::outbox::store::Event;
use crate::position::{Change, Fences, Report, Track, TripConfig, Watching};

/// All rules of a configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    speed: Vec<SpeedRule>,
    fences: Option<Fences>,
    stop: Option<TripConfig>,
}

/// What is remembered of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Watch {
    track: Track,
    /// The speed rules that it breaks.
    speeding: BTreeSet<String>,
}

/// Which message a report is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The stream of uplinks.
    pub(super) stream: &'a str,
    pub(super) sequence: u64,
}

#[derive(Serialize)]
struct Exceeded<'a> {
    product_id: &'a str,
    device_name: &'a str,
    at: Timestamp,
    latitude: f64,
    longitude: f64,
    speed_mps: f64,
    limit_mps: f64,
}

#[derive(Serialize)]
struct Crossed<'a> {
    product_id: &'a str,
    device_name: &'a str,
    fence: &'a str,
    at: Timestamp,
    latitude: f64,
    longitude: f64,
}

#[derive(Serialize)]
struct Stands<'a> {
    product_id: &'a str,
    device_name: &'a str,
    since: Timestamp,
    at: Timestamp,
    latitude: f64,
    longitude: f64,
}

impl Rules {
    /// Checked with the configuration.
    pub(super) fn new(config: &Config) -> Self {
        let fences = Fences::new(&config.fence).unwrap_or_default();
        Self {
            speed: config.speed.clone(),
            fences: (!fences.is_empty()).then_some(fences),
            stop: config.stop,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.speed.is_empty() && self.fences.is_none() && self.stop.is_none()
    }
}

impl Watch {
    /// Takes a device's next report; gives what it tells.
    pub(super) fn step(
        &mut self,
        report: &Report,
        origin: &Origin<'_>,
        rules: &Rules,
    ) -> Vec<Event> {
        let watching = Watching {
            fences: rules.fences.as_ref(),
            trip: rules.stop,
            sampling: None,
        };
        let step = self.track.step(report, &watching);
        let mut events = Vec::new();
        if step.is_newer {
            for rule in &rules.speed {
                events.extend(self.speed(rule, report, origin));
            }
        }
        let told = step.changes.iter();
        events.extend(told.filter_map(|change| changed(change, report, origin, rules.stop)));
        events
    }

    /// An event if an incident begins.
    fn speed(&mut self, rule: &SpeedRule, report: &Report, origin: &Origin<'_>) -> Option<Event> {
        let speed_mps = report.speed_mps?;
        if !rule.is_for(report.device.product()) || speed_mps <= rule.over_mps() {
            self.speeding.remove(&rule.name);
            return None;
        }
        if speed_mps <= rule.limit_mps || !self.speeding.insert(rule.name.clone()) {
            return None;
        }
        let point = report.point();
        let kind = GpsEvent::SpeedExceeded;
        let data = Exceeded {
            product_id: report.device.product(),
            device_name: report.device.name(),
            at: Timestamp(report.at_ms()),
            latitude: point.latitude,
            longitude: point.longitude,
            speed_mps,
            limit_mps: rule.limit_mps,
        };
        let distinct = [kind.name(), &rule.name];
        Some(of_report(kind, report, origin, &distinct, data))
    }
}

/// Fences have the same identity as the event that the GPS worker makes of the same change: one that both watch is told once.
fn changed(
    change: &Change,
    report: &Report,
    origin: &Origin<'_>,
    stop: Option<TripConfig>,
) -> Option<Event> {
    let (product_id, device_name) = (report.device.product(), report.device.name());
    let crossed = |kind: GpsEvent, fence: &str| {
        let point = report.point();
        let data = Crossed {
            product_id,
            device_name,
            fence,
            at: Timestamp(report.at_ms()),
            latitude: point.latitude,
            longitude: point.longitude,
        };
        Some(of_report(kind, report, origin, &[kind.name(), fence], data))
    };
    match change {
        Change::FenceEntered { fence } => crossed(GpsEvent::GeofenceEntered, fence),
        Change::FenceLeft { fence } => crossed(GpsEvent::GeofenceLeft, fence),
        Change::TripStarted { .. } => None,
        Change::TripStopped { end, .. } => {
            let kind = GpsEvent::StopDetected;
            let stands_ms = stop?.stop_s.saturating_mul(1_000);
            let data = Stands {
                product_id,
                device_name,
                since: Timestamp(end.at_ms),
                at: Timestamp(end.at_ms.saturating_add(stands_ms)),
                latitude: end.latitude,
                longitude: end.longitude,
            };
            Some(of_report(kind, report, origin, &[kind.name()], data))
        }
    }
}

fn of_report<D: Serialize>(
    kind: GpsEvent,
    report: &Report,
    origin: &Origin<'_>,
    distinct: &[&str],
    data: D,
) -> Event {
    let sequence = origin.sequence.to_be_bytes();
    let index = report.index.to_be_bytes();
    let mut parts: Vec<&[u8]> = vec![origin.stream.as_bytes(), &sequence, &index];
    parts.extend(distinct.iter().map(|part| part.as_bytes()));
    let mut event = event(kind, &report.device, report.received_ms, &parts, data);
    let source = format!("{}:{}", origin.stream, origin.sequence);
    event.headers.push("Jw-Source", source);
    event
}

/// A device's row of another version, or of nobody's, begins anew.
pub(super) fn read(state: &str, device: &DeviceId) -> Watch {
    serde_json::from_str(state).unwrap_or_else(|error| {
        tracing::warn!(%device, %error, "what was watched of a device cannot be read");
        Watch::default()
    })
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
