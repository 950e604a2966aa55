//! One position that a device reported, as rows and events hold it.

use super::convert::{System, convert};
use super::flags::Flags;
use super::sphere::Point;
use crate::device::DeviceId;

/// A position of a device. Numbers are those of the device to the last digit, but for units and a configured conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Whose position it is: the message's device, or one that it may act for.
    pub device: DeviceId,
    /// The place in its message: the same whenever the message is read, whatever the rules then find beside it.
    pub index: u32,
    /// Degrees, -90 to 90.
    pub latitude: f64,
    /// Degrees, -180 to 180.
    pub longitude: f64,
    /// What the degrees are of.
    pub system: System,
    /// Metres above sea level or the ellipsoid, as the device means it: -12,000 to 100,000.
    pub altitude_m: Option<f64>,
    /// Metres a second: 0 to 1,000.
    pub speed_mps: Option<f64>,
    /// Degrees from north, clockwise: 0 to 360.
    pub course_deg: Option<f64>,
    /// How many satellites were used: at most 1,000.
    pub satellites: Option<u16>,
    /// Horizontal dilution of precision: 0 to 1,000.
    pub hdop: Option<f64>,
    /// Metres that it may be off: 0 to 10,000,000.
    pub accuracy_m: Option<f64>,
    /// The device's time, Unix milliseconds below 10^14; none if it said none that can be read. Kept even if it is implausible.
    pub device_ms: Option<u64>,
    /// When the gateway received the message, Unix milliseconds.
    pub received_ms: u64,
    /// What else there is to know.
    pub flags: Flags,
}

impl Report {
    /// The time that history is ordered by: the device's if it is plausible, else that of receipt. Unix milliseconds.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        let plausible = self.device_ms.filter(|_| self.flags.has_time());
        plausible.unwrap_or(self.received_ms)
    }

    /// Whether it moves a latest position that is of `latest_ms`, or is the first: it may and it is newer (G37).
    #[must_use]
    pub fn is_newer(&self, latest_ms: Option<u64>) -> bool {
        self.flags.moves_latest() && latest_ms.is_none_or(|latest| self.at_ms() > latest)
    }

    /// Whether it comes after one of a later time: its device's time is before that of the latest valid fix (G37).
    #[must_use]
    pub fn is_late(&self, latest_ms: Option<u64>) -> bool {
        let said = self
            .device_ms
            .filter(|_| !self.flags.contains(Flags::TIME_IN_FUTURE));
        latest_ms.zip(said).is_some_and(|(latest, at)| at < latest)
    }

    /// Where it is in WGS84, whatever it is tagged as.
    #[must_use]
    pub fn point(&self) -> Point {
        let (latitude, longitude) =
            convert(self.system, System::Wgs84, self.latitude, self.longitude);
        Point {
            latitude,
            longitude,
        }
    }
}
