//! Statements for MySQL and MariaDB: many rows are one list of values.
//!
//! `INSERT IGNORE` is not used: it would also take values that do not fit, and change them.

use sqlx::{MySql, MySqlConnection, QueryBuilder};
use uuid::Uuid;

use super::bind::{self, ROWS_MAX};
use super::row::{LATEST_COLUMNS, REPORT_COLUMNS, Row};
use super::sqlite::Known;
use crate::device::DeviceId;

/// When the latest fix of each device was that has one.
pub(super) async fn latest(
    connection: &mut MySqlConnection,
    devices: &[&DeviceId],
) -> Result<Known<i64>, sqlx::Error> {
    let mut known = Vec::new();
    for devices in devices.chunks(ROWS_MAX) {
        let mut query = of_devices("at_ms FROM gps_latest", devices);
        known.extend(query.build_query_as().fetch_all(&mut *connection).await?);
    }
    Ok(known)
}

/// The tracks of these devices.
pub(super) async fn tracks(
    connection: &mut MySqlConnection,
    devices: &[&DeviceId],
) -> Result<Known<String>, sqlx::Error> {
    let mut known = Vec::new();
    for devices in devices.chunks(ROWS_MAX) {
        let mut query = of_devices("state FROM gps_track", devices);
        known.extend(query.build_query_as().fetch_all(&mut *connection).await?);
    }
    Ok(known)
}

fn of_devices(what: &str, devices: &[&DeviceId]) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(
        "SELECT CONVERT(product_id USING utf8mb4), CONVERT(device_name USING utf8mb4), ",
    );
    query.push(what);
    query.push(" WHERE (product_id, device_name) IN ");
    query.push_tuples(devices, |mut values, device| {
        values.push_bind(device.product()).push_bind(device.name());
    });
    query
}

/// Which of these reports are there.
pub(super) async fn present(
    connection: &mut MySqlConnection,
    ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    let mut present = Vec::new();
    for ids in ids.chunks(ROWS_MAX) {
        let mut query = QueryBuilder::new("SELECT event_id FROM gps_report WHERE event_id IN (");
        let mut values = query.separated(", ");
        for id in ids {
            values.push_bind(*id);
        }
        query.push(")");
        present.extend(
            query
                .build_query_scalar::<Uuid>()
                .fetch_all(&mut *connection)
                .await?,
        );
    }
    Ok(present)
}

/// Writes reports; those that are there stay as they are.
pub(super) async fn insert(
    connection: &mut MySqlConnection,
    rows: &[Row],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(ROWS_MAX) {
        let mut query = QueryBuilder::<MySql>::new("INSERT INTO gps_report (");
        query.push(REPORT_COLUMNS).push(") ");
        query.push_values(rows, |mut values, row| bind::report(&mut values, row));
        query.push(" ON DUPLICATE KEY UPDATE event_id = VALUES(event_id)");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Moves the latest position of devices, where these are newer; at most one a device.
pub(super) async fn move_latest(
    connection: &mut MySqlConnection,
    rows: &[&Row],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(ROWS_MAX) {
        let mut query = QueryBuilder::<MySql>::new("INSERT INTO gps_latest (");
        query.push(LATEST_COLUMNS).push(") ");
        query.push_values(rows, |mut values, row| bind::latest(&mut values, row));
        query.push(" ON DUPLICATE KEY UPDATE ");
        let mut columns = query.separated(", ");
        // They are set one after the other, and the time is what decides: it comes last.
        for column in LATEST_COLUMNS
            .split(", ")
            .filter(|column| *column != "at_ms")
        {
            columns.push(format_args!(
                "{column} = IF(VALUES(at_ms) > at_ms, VALUES({column}), {column})"
            ));
        }
        columns.push("at_ms = GREATEST(VALUES(at_ms), at_ms)");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Writes the tracks of devices; at most one a device.
pub(super) async fn put_tracks(
    connection: &mut MySqlConnection,
    tracks: &[(DeviceId, String)],
) -> Result<(), sqlx::Error> {
    for tracks in tracks.chunks(ROWS_MAX) {
        let mut query =
            QueryBuilder::<MySql>::new("INSERT INTO gps_track (product_id, device_name, state) ");
        query.push_values(tracks, |mut values, (device, state)| {
            let device = (device.product(), device.name());
            values
                .push_bind(device.0)
                .push_bind(device.1)
                .push_bind(state);
        });
        query.push(" ON DUPLICATE KEY UPDATE state = VALUES(state)");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}
