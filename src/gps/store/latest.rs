//! The latest position of one device, read for an operator.

use sqlx::FromRow;
use uuid::Uuid;

use super::tables::Tables;
use crate::database::Pool;
use crate::device::DeviceId;

const COLUMNS: &str = "SELECT event_id, at_ms, device_ms, received_ms, latitude, longitude, coordinate_system, altitude_m, speed_mps, \
     course_deg, satellites, hdop, accuracy_m, flags FROM gps_latest WHERE product_id = ? AND device_name = ?";
const COLUMNS_POSTGRES: &str = "SELECT event_id, at_ms, device_ms, received_ms, latitude, longitude, coordinate_system, altitude_m, speed_mps, \
     course_deg, satellites, hdop, accuracy_m, flags FROM gps_latest WHERE product_id = $1 AND device_name = $2";

/// The newest valid fix of a device. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct Latest {
    /// The report's event.
    pub event_id: Uuid,
    /// When it was there.
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
    pub coordinate_system: i16,
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
}

impl Tables {
    /// The latest position of a device; none without a valid fix.
    ///
    /// # Errors
    /// The database's.
    pub async fn latest_of(&self, device: &DeviceId) -> Result<Option<Latest>, sqlx::Error> {
        let (product, name) = (device.product(), device.name());
        match &self.pool {
            Pool::Sqlite(pool) => {
                let query = sqlx::query_as(COLUMNS).bind(product).bind(name);
                query.fetch_optional(pool).await
            }
            Pool::Postgres(pool) => {
                let query = sqlx::query_as(COLUMNS_POSTGRES).bind(product).bind(name);
                query.fetch_optional(pool).await
            }
            Pool::MySql(pool) => {
                let query = sqlx::query_as(COLUMNS).bind(product).bind(name);
                query.fetch_optional(pool).await
            }
        }
    }
}
