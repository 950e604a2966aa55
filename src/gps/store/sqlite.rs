//! Statements for SQLite: many rows are one list of values.

use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use uuid::Uuid;

use super::bind::{self, ROWS_MAX};
use super::row::{LATEST_COLUMNS, REPORT_COLUMNS, Row};
use crate::device::DeviceId;

/// Devices, each with what is known of it.
pub(super) type Known<T> = Vec<(String, String, T)>;

/// When the latest fix of each device was that has one.
pub(super) async fn latest(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
    devices: &[&DeviceId],
) -> Result<Known<String>, sqlx::Error> {
    let mut known = Vec::new();
    for devices in devices.chunks(ROWS_MAX) {
        let mut query = of_devices("state FROM gps_track", devices);
        known.extend(query.build_query_as().fetch_all(&mut *connection).await?);
    }
    Ok(known)
}

fn of_devices(what: &str, devices: &[&DeviceId]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new("SELECT product_id, device_name, ");
    query.push(what);
    query.push(" WHERE (product_id, device_name) IN (");
    query.push_values(devices, |mut values, device| {
        values.push_bind(device.product()).push_bind(device.name());
    });
    query.push(")");
    query
}

/// Which of these reports are there.
pub(super) async fn present(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
    rows: &[Row],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(ROWS_MAX) {
        let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO gps_report (");
        query.push(REPORT_COLUMNS).push(") ");
        query.push_values(rows, |mut values, row| bind::report(&mut values, row));
        query.push(" ON CONFLICT (event_id) DO NOTHING");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Moves the latest position of devices, where these are newer; at most one a device.
pub(super) async fn move_latest(
    connection: &mut SqliteConnection,
    rows: &[&Row],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(ROWS_MAX) {
        let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO gps_latest (");
        query.push(LATEST_COLUMNS).push(") ");
        query.push_values(rows, |mut values, row| bind::latest(&mut values, row));
        query.push(" ON CONFLICT (product_id, device_name) DO UPDATE SET ");
        let mut columns = query.separated(", ");
        for column in LATEST_COLUMNS.split(", ") {
            columns.push(format_args!("{column} = excluded.{column}"));
        }
        query.push(" WHERE excluded.at_ms > gps_latest.at_ms");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}

/// Writes the tracks of devices; at most one a device.
pub(super) async fn put_tracks(
    connection: &mut SqliteConnection,
    tracks: &[(DeviceId, String)],
) -> Result<(), sqlx::Error> {
    for tracks in tracks.chunks(ROWS_MAX) {
        let mut query =
            QueryBuilder::<Sqlite>::new("INSERT INTO gps_track (product_id, device_name, state) ");
        query.push_values(tracks, |mut values, (device, state)| {
            let device = (device.product(), device.name());
            values
                .push_bind(device.0)
                .push_bind(device.1)
                .push_bind(state);
        });
        query.push(" ON CONFLICT (product_id, device_name) DO UPDATE SET state = excluded.state");
        query.build().execute(&mut *connection).await?;
    }
    Ok(())
}
