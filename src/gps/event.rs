//! GPS events as the outbox has them: what a report says, and what a device's track tells.

use serde::Serialize;

use crate::device::DeviceId;
use crate::event::{self, Envelope, Timestamp, derived_id};
use crate::mapping::GpsEvent;
use crate::message::Headers;
use crate::outbox::store::Event;
use crate::position::{Change, Fix, Flags, Report};

/// Which message a report is from, and when that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The stream of uplinks.
    pub(super) stream: &'a str,
    pub(super) sequence: u64,
    pub(super) received_ms: u64,
    pub(super) trace_id: &'a str,
}

#[derive(Serialize)]
struct Created<'a> {
    product_id: &'a str,
    device_name: &'a str,
    reported_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_time: Option<Timestamp>,
    received_at: Timestamp,
    latitude: f64,
    longitude: f64,
    coordinate_system: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    altitude_m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_mps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    course_deg: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    satellites: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hdop: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_m: Option<f64>,
    flags: Flags,
    late: bool,
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
struct Started<'a> {
    product_id: &'a str,
    device_name: &'a str,
    start: Place,
}

#[derive(Serialize)]
struct Stopped<'a> {
    product_id: &'a str,
    device_name: &'a str,
    start: Place,
    end: Place,
    distance_m: f64,
    points: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_max_mps: Option<f64>,
}

#[derive(Serialize)]
struct Place {
    at: Timestamp,
    latitude: f64,
    longitude: f64,
}

impl From<Fix> for Place {
    fn from(fix: Fix) -> Self {
        Self {
            at: Timestamp(fix.at_ms),
            latitude: fix.latitude,
            longitude: fix.longitude,
        }
    }
}

/// That a report is committed.
pub(super) fn created(origin: &Origin<'_>, report: &Report, late: bool) -> Event {
    let data = Created {
        product_id: report.device.product(),
        device_name: report.device.name(),
        reported_at: Timestamp(report.at_ms()),
        device_time: report.device_ms.map(Timestamp),
        received_at: Timestamp(report.received_ms),
        latitude: report.latitude,
        longitude: report.longitude,
        coordinate_system: report.system.name(),
        altitude_m: report.altitude_m,
        speed_mps: report.speed_mps,
        course_deg: report.course_deg,
        satellites: report.satellites,
        hdop: report.hdop,
        accuracy_m: report.accuracy_m,
        flags: report.flags,
        late,
    };
    event(origin, report, &[], GpsEvent::ReportCreated, data)
}

/// What a report did to its device's track.
pub(super) fn changed(origin: &Origin<'_>, report: &Report, change: &Change) -> Event {
    let DeviceNames {
        product_id,
        device_name,
    } = names(&report.device);
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
        event(origin, report, &[kind.name(), fence], kind, data)
    };
    match change {
        Change::FenceEntered { fence } => crossed(GpsEvent::GeofenceEntered, fence),
        Change::FenceLeft { fence } => crossed(GpsEvent::GeofenceLeft, fence),
        Change::TripStarted { start } => {
            let kind = GpsEvent::TripStarted;
            let data = Started {
                product_id,
                device_name,
                start: (*start).into(),
            };
            event(origin, report, &[kind.name()], kind, data)
        }
        Change::TripStopped {
            start,
            end,
            distance_m,
            points,
            speed_max_mps,
        } => {
            let kind = GpsEvent::TripStopped;
            let data = Stopped {
                product_id,
                device_name,
                start: (*start).into(),
                end: (*end).into(),
                distance_m: *distance_m,
                points: *points,
                speed_max_mps: *speed_max_mps,
            };
            event(origin, report, &[kind.name()], kind, data)
        }
    }
}

struct DeviceNames<'a> {
    product_id: &'a str,
    device_name: &'a str,
}

fn names(device: &DeviceId) -> DeviceNames<'_> {
    DeviceNames {
        product_id: device.product(),
        device_name: device.name(),
    }
}

/// `distinct` tells it from the other events of the report.
fn event<D: Serialize>(
    origin: &Origin<'_>,
    report: &Report,
    distinct: &[&str],
    kind: GpsEvent,
    data: D,
) -> Event {
    let sequence = origin.sequence.to_be_bytes();
    let index = report.index.to_be_bytes();
    let mut parts: Vec<&[u8]> = vec![origin.stream.as_bytes(), &sequence, &index];
    parts.extend(distinct.iter().map(|part| part.as_bytes()));
    let event_id = derived_id(origin.received_ms, &parts);
    let mut headers = Headers::with_capacity(64);
    headers.push(
        "Jw-Source",
        format!("{}:{}", origin.stream, origin.sequence),
    );
    Event {
        event_id,
        event_type: kind.name().into(),
        event_version: "1.0".into(),
        aggregate_type: "device".into(),
        aggregate_id: report.device.to_string().into(),
        subject: kind.subject(&report.device),
        payload: event::encode(&Envelope {
            event_id,
            event_name: kind.name(),
            event_version: "1.0",
            event_time: Timestamp(origin.received_ms),
            producer: "jetway",
            trace_id: origin.trace_id,
            data,
        }),
        headers,
        trace_id: origin.trace_id.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::System;

    #[test]
    fn an_event_has_the_same_id_each_time_and_says_the_numbers_as_they_are() {
        let report = Report {
            device: DeviceId::new("P.1", "d").unwrap(),
            index: 3,
            latitude: 45.273_518_851,
            longitude: -0.1,
            system: System::Gcj02,
            altitude_m: None,
            speed_mps: Some(1.0 / 3.0),
            course_deg: None,
            satellites: Some(9),
            hdop: None,
            accuracy_m: None,
            device_ms: Some(1_753_999_999_000),
            received_ms: 1_754_000_000_123,
            flags: Flags::CONVERTED,
        };
        let origin = Origin {
            stream: "DEVICE_UP",
            sequence: 17,
            received_ms: report.received_ms,
            trace_id: "0af7651916cd43dd8448eb211c80319c",
        };
        let event = created(&origin, &report, true);
        let parts: [&[u8]; 3] = [b"DEVICE_UP", &17_u64.to_be_bytes(), &3_u32.to_be_bytes()];
        // Another id would be another event to every consumer.
        assert_eq!(event.event_id, derived_id(report.received_ms, &parts));
        assert_eq!(&*event.aggregate_id, "P.1/d");
        assert_eq!(event.subject, "gps.report.created.P%2E1.d");
        assert_eq!(event.headers.get("Jw-Source"), Some("DEVICE_UP:17"));
        let id = event.event_id;
        let expected = format!(
            r#"{{"event_id":"{id}","event_name":"gps.report.created","event_version":"1.0","event_time":"2025-07-31T22:13:20.123Z","producer":"jetway","trace_id":"0af7651916cd43dd8448eb211c80319c","data":{{"product_id":"P.1","device_name":"d","reported_at":"2025-07-31T22:13:19.000Z","device_time":"2025-07-31T22:13:19.000Z","received_at":"2025-07-31T22:13:20.123Z","latitude":45.273518851,"longitude":-0.1,"coordinate_system":"GCJ02","speed_mps":0.3333333333333333,"satellites":9,"flags":["converted"],"late":true}}}}"#
        );
        assert_eq!(event.payload, expected);
        let fence = |fence: &str| Change::FenceLeft {
            fence: fence.to_owned(),
        };
        let (a, b) = (
            changed(&origin, &report, &fence("a")),
            changed(&origin, &report, &fence("b")),
        );
        assert_ne!(a.event_id, b.event_id);
        assert_ne!(a.event_id, event.event_id);
        assert_eq!(a.subject, "gps.geofence.left.P%2E1.d");
    }
}
