//! The subjects of GPS events (SUBJECTS §3), in stream `GPS`.

use super::subject::device_tokens;
use crate::device::DeviceId;
use crate::message::Subject;

/// What is told about where a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GpsEvent {
    /// A report is committed in the database.
    ReportCreated,
    /// The device came into a fence.
    GeofenceEntered,
    /// It left one.
    GeofenceLeft,
    /// It began to move.
    TripStarted,
    /// It has come to a stop.
    TripStopped,
    /// It is faster than it may be.
    SpeedExceeded,
    /// It has stood for as long as a rule says.
    StopDetected,
    /// A window of its reports is closed.
    WindowClosed,
}

impl GpsEvent {
    /// Its name: `domain.resource.verb`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReportCreated => "gps.report.created",
            Self::GeofenceEntered => "gps.geofence.entered",
            Self::GeofenceLeft => "gps.geofence.left",
            Self::TripStarted => "gps.trip.started",
            Self::TripStopped => "gps.trip.stopped",
            Self::SpeedExceeded => "gps.speed.exceeded",
            Self::StopDetected => "gps.stop.detected",
            Self::WindowClosed => "gps.window.closed",
        }
    }

    /// `<name>.<productID>.<deviceName>`
    #[must_use]
    pub fn subject(self, device: &DeviceId) -> Subject {
        format!("{}.{}", self.name(), device_tokens(device)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::SUBJECT_BYTES_MAX;

    #[test]
    fn each_event_has_its_subject_and_none_is_too_long() {
        let device = DeviceId::new("P.1", "D>").unwrap();
        let subject = GpsEvent::ReportCreated.subject(&device);
        assert_eq!(subject, "gps.report.created.P%2E1.D%3E");
        let long = DeviceId::new(&".".repeat(128), &".".repeat(128)).unwrap();
        let subject = GpsEvent::GeofenceEntered.subject(&long);
        assert!(subject.len() <= SUBJECT_BYTES_MAX);
    }
}
