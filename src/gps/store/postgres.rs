//! Statements for PostgreSQL: many rows are one array a column, so that a statement is the same for any number of them.

use sqlx::PgConnection;
use uuid::Uuid;

use super::row::Row;
use super::sqlite::Known;
use crate::device::DeviceId;

const LATEST: &str = "SELECT product_id, device_name, at_ms FROM gps_latest \
     JOIN UNNEST($1::text[], $2::text[]) AS wanted (product, device) ON product_id = product AND device_name = device";
const TRACKS: &str = "SELECT product_id, device_name, state FROM gps_track \
     JOIN UNNEST($1::text[], $2::text[]) AS wanted (product, device) ON product_id = product AND device_name = device";
const PRESENT: &str = "SELECT event_id FROM gps_report WHERE event_id = ANY($1)";
const INSERT: &str = "INSERT INTO gps_report (event_id, product_id, device_name, at_ms, device_ms, received_ms, latitude, longitude, \
     coordinate_system, altitude_m, speed_mps, course_deg, satellites, hdop, accuracy_m, flags, late, stream_created_ns, sequence, point) \
     SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::float8[], $8::float8[], \
     $9::smallint[], $10::float8[], $11::float8[], $12::float8[], $13::int[], $14::float8[], $15::float8[], $16::int[], \
     $17::bool[], $18::bigint[], $19::bigint[], $20::int[]) \
     ON CONFLICT (event_id, received_ms) DO NOTHING";
const MOVE_LATEST: &str = "INSERT INTO gps_latest (event_id, product_id, device_name, at_ms, device_ms, received_ms, latitude, longitude, \
     coordinate_system, altitude_m, speed_mps, course_deg, satellites, hdop, accuracy_m, flags) \
     SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::float8[], $8::float8[], \
     $9::smallint[], $10::float8[], $11::float8[], $12::float8[], $13::int[], $14::float8[], $15::float8[], $16::int[]) \
     ON CONFLICT (product_id, device_name) DO UPDATE SET event_id = excluded.event_id, at_ms = excluded.at_ms, \
     device_ms = excluded.device_ms, received_ms = excluded.received_ms, latitude = excluded.latitude, longitude = excluded.longitude, \
     coordinate_system = excluded.coordinate_system, altitude_m = excluded.altitude_m, speed_mps = excluded.speed_mps, \
     course_deg = excluded.course_deg, satellites = excluded.satellites, hdop = excluded.hdop, accuracy_m = excluded.accuracy_m, \
     flags = excluded.flags WHERE excluded.at_ms > gps_latest.at_ms";
const PUT_TRACKS: &str = "INSERT INTO gps_track (product_id, device_name, state) \
     SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[]) \
     ON CONFLICT (product_id, device_name) DO UPDATE SET state = excluded.state";

/// When the latest fix of each device was that has one.
pub(super) async fn latest(
    connection: &mut PgConnection,
    devices: &[&DeviceId],
) -> Result<Known<i64>, sqlx::Error> {
    let (products, names) = columns(devices);
    let query = sqlx::query_as(LATEST).bind(products).bind(names);
    query.fetch_all(connection).await
}

/// The tracks of these devices.
pub(super) async fn tracks(
    connection: &mut PgConnection,
    devices: &[&DeviceId],
) -> Result<Known<String>, sqlx::Error> {
    let (products, names) = columns(devices);
    let query = sqlx::query_as(TRACKS).bind(products).bind(names);
    query.fetch_all(connection).await
}

fn columns<'d>(devices: &[&'d DeviceId]) -> (Vec<&'d str>, Vec<&'d str>) {
    let devices = devices
        .iter()
        .map(|device| (device.product(), device.name()));
    devices.unzip()
}

/// Which of these reports are there.
pub(super) async fn present(
    connection: &mut PgConnection,
    ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    let query = sqlx::query_scalar(PRESENT).bind(ids);
    query.fetch_all(connection).await
}

/// Writes reports; those that are there stay as they are.
pub(super) async fn insert(connection: &mut PgConnection, rows: &[Row]) -> Result<(), sqlx::Error> {
    fn all<'r, T>(rows: &'r [Row], column: impl Fn(&'r Row) -> T) -> Vec<T> {
        rows.iter().map(column).collect()
    }
    let query = sqlx::query(INSERT)
        .bind(all(rows, |row| row.event_id))
        .bind(all(rows, |row| row.device.product()))
        .bind(all(rows, |row| row.device.name()))
        .bind(all(rows, |row| row.at_ms))
        .bind(all(rows, |row| row.device_ms))
        .bind(all(rows, |row| row.received_ms))
        .bind(all(rows, |row| row.latitude))
        .bind(all(rows, |row| row.longitude))
        .bind(all(rows, |row| row.system))
        .bind(all(rows, |row| row.altitude_m))
        .bind(all(rows, |row| row.speed_mps))
        .bind(all(rows, |row| row.course_deg))
        .bind(all(rows, |row| row.satellites))
        .bind(all(rows, |row| row.hdop))
        .bind(all(rows, |row| row.accuracy_m))
        .bind(all(rows, |row| row.flags))
        .bind(all(rows, |row| row.late))
        .bind(all(rows, |row| row.stream_created_ns))
        .bind(all(rows, |row| row.sequence))
        .bind(all(rows, |row| row.point));
    query.execute(connection).await.map(drop)
}

/// Moves the latest position of devices, where these are newer; at most one a device.
pub(super) async fn move_latest(
    connection: &mut PgConnection,
    rows: &[&Row],
) -> Result<(), sqlx::Error> {
    fn all<'r, T>(rows: &[&'r Row], column: impl Fn(&'r Row) -> T) -> Vec<T> {
        rows.iter().map(|row| column(row)).collect()
    }
    let query = sqlx::query(MOVE_LATEST)
        .bind(all(rows, |row| row.event_id))
        .bind(all(rows, |row| row.device.product()))
        .bind(all(rows, |row| row.device.name()))
        .bind(all(rows, |row| row.at_ms))
        .bind(all(rows, |row| row.device_ms))
        .bind(all(rows, |row| row.received_ms))
        .bind(all(rows, |row| row.latitude))
        .bind(all(rows, |row| row.longitude))
        .bind(all(rows, |row| row.system))
        .bind(all(rows, |row| row.altitude_m))
        .bind(all(rows, |row| row.speed_mps))
        .bind(all(rows, |row| row.course_deg))
        .bind(all(rows, |row| row.satellites))
        .bind(all(rows, |row| row.hdop))
        .bind(all(rows, |row| row.accuracy_m))
        .bind(all(rows, |row| row.flags));
    query.execute(connection).await.map(drop)
}

/// Writes the tracks of devices; at most one a device.
pub(super) async fn put_tracks(
    connection: &mut PgConnection,
    tracks: &[(DeviceId, String)],
) -> Result<(), sqlx::Error> {
    let devices: Vec<_> = tracks.iter().map(|(device, _)| device).collect();
    let (products, names) = columns(&devices);
    let states: Vec<&str> = tracks.iter().map(|(_, state)| &**state).collect();
    let query = sqlx::query(PUT_TRACKS);
    let query = query.bind(products).bind(names).bind(states);
    query.execute(connection).await.map(drop)
}
