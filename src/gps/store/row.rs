//! A report as its row has it: numbers of the database's types, so that a statement only binds.

use uuid::Uuid;

use crate::device::DeviceId;

/// A row of `gps_report`. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The identity of the report and of its event.
    pub event_id: Uuid,
    /// Whose position it is.
    pub device: DeviceId,
    /// When it was there: the device's time if it is usable, else when it was received.
    pub at_ms: i64,
    /// What the device says.
    pub device_ms: Option<i64>,
    /// When the gateway received it.
    pub received_ms: i64,
    /// Degrees.
    pub latitude: f64,
    /// Degrees.
    pub longitude: f64,
    /// The number of the coordinate system.
    pub system: i16,
    /// Metres.
    pub altitude_m: Option<f64>,
    /// Metres a second.
    pub speed_mps: Option<f64>,
    /// Degrees from north, clockwise.
    pub course_deg: Option<f64>,
    /// How many were used.
    pub satellites: Option<i32>,
    /// Horizontal dilution of precision.
    pub hdop: Option<f64>,
    /// Metres.
    pub accuracy_m: Option<f64>,
    /// The bits of its flags.
    pub flags: i32,
    /// A newer valid fix of the device was stored before it.
    pub late: bool,
    /// When the stream of its message was created, Unix nanoseconds.
    pub stream_created_ns: i64,
    /// The message's place there.
    pub sequence: i64,
    /// The report's place in the message.
    pub point: i32,
}

/// The columns of `gps_report`, in the order in which they are bound.
pub(super) const REPORT_COLUMNS: &str = "event_id, product_id, device_name, at_ms, device_ms, received_ms, latitude, longitude, \
     coordinate_system, altitude_m, speed_mps, course_deg, satellites, hdop, accuracy_m, flags, late, stream_created_ns, sequence, point";

/// Those of `gps_latest`: the first sixteen.
pub(super) const LATEST_COLUMNS: &str = "event_id, product_id, device_name, at_ms, device_ms, received_ms, latitude, longitude, \
     coordinate_system, altitude_m, speed_mps, course_deg, satellites, hdop, accuracy_m, flags";
