//! Values of a row behind each other, for the databases that take many rows as one list of values.

use sqlx::query_builder::Separated;
use sqlx::{Database, Encode, Type};
use uuid::Uuid;

use super::row::Row;

/// Rows of one statement: SQLite takes 32,766 values, MySQL 65,535.
pub(super) const ROWS_MAX: usize = 1_000;

/// Binds what `gps_latest` has of a row.
pub(super) fn latest<'q, D>(values: &mut Separated<'_, D, &'static str>, row: &'q Row)
where
    D: Database,
    &'q str: Encode<'q, D> + Type<D>,
    Uuid: Encode<'q, D> + Type<D>,
    i64: Encode<'q, D> + Type<D>,
    Option<i64>: Encode<'q, D> + Type<D>,
    Option<i32>: Encode<'q, D> + Type<D>,
    Option<f64>: Encode<'q, D> + Type<D>,
    i32: Encode<'q, D> + Type<D>,
    i16: Encode<'q, D> + Type<D>,
    f64: Encode<'q, D> + Type<D>,
{
    values
        .push_bind(row.event_id)
        .push_bind(row.device.product())
        .push_bind(row.device.name())
        .push_bind(row.at_ms)
        .push_bind(row.device_ms)
        .push_bind(row.received_ms)
        .push_bind(row.latitude)
        .push_bind(row.longitude)
        .push_bind(row.system)
        .push_bind(row.altitude_m)
        .push_bind(row.speed_mps)
        .push_bind(row.course_deg)
        .push_bind(row.satellites)
        .push_bind(row.hdop)
        .push_bind(row.accuracy_m)
        .push_bind(row.flags);
}

/// Binds a row of `gps_report`.
pub(super) fn report<'q, D>(values: &mut Separated<'_, D, &'static str>, row: &'q Row)
where
    D: Database,
    &'q str: Encode<'q, D> + Type<D>,
    Uuid: Encode<'q, D> + Type<D>,
    i64: Encode<'q, D> + Type<D>,
    Option<i64>: Encode<'q, D> + Type<D>,
    Option<i32>: Encode<'q, D> + Type<D>,
    Option<f64>: Encode<'q, D> + Type<D>,
    i32: Encode<'q, D> + Type<D>,
    i16: Encode<'q, D> + Type<D>,
    f64: Encode<'q, D> + Type<D>,
    bool: Encode<'q, D> + Type<D>,
{
    latest(values, row);
    values
        .push_bind(row.late)
        .push_bind(row.stream_created_ns)
        .push_bind(row.sequence)
        .push_bind(row.point);
}
