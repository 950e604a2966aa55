//! The history's ends: partitions made ahead on PostgreSQL, and what is too old removed in bounded steps.

use sqlx::{AssertSqlSafe, PgPool, Row as _};
use uuid::{Builder, Uuid};

use crate::database::Pool;

/// Rows that one statement removes, so that it locks nobody out for long.
const ROWS_MAX: i64 = 1_000;
const DAY_MS: i64 = 86_400_000;

const PURGE_SQLITE: &str = "DELETE FROM gps_report WHERE event_id IN \
     (SELECT event_id FROM gps_report WHERE event_id < ? ORDER BY event_id LIMIT ?)";
const PURGE_MYSQL: &str = "DELETE FROM gps_report WHERE event_id < ? ORDER BY event_id LIMIT ?";
/// The partitions, each with its name.
const PARTITIONS: &str =
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'gps_report'::regclass";
const NAME: &str = "gps_report_day_";

/// The day of a time in Unix milliseconds, counted from 1970 in UTC.
#[must_use]
pub fn day_of(ms: i64) -> i64 {
    ms.div_euclid(DAY_MS)
}

/// Makes the partitions of these days, where there is none.
pub(super) async fn make_partitions(
    pool: &PgPool,
    days: impl Iterator<Item = i64>,
) -> Result<(), sqlx::Error> {
    for day in days {
        let (from, to) = (day * DAY_MS, (day + 1) * DAY_MS);
        let statement = format!(
            "CREATE TABLE IF NOT EXISTS {NAME}{day} PARTITION OF gps_report FOR VALUES FROM ({from}) TO ({to})"
        );
        // Put together of numbers.
        let made = sqlx::query(AssertSqlSafe(statement)).execute(pool).await;
        match made {
            Err(sqlx::Error::Database(error)) if is_there(error.code().as_deref()) => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Another worker made it in this moment: duplicate table, or a duplicate in the catalogue.
fn is_there(code: Option<&str>) -> bool {
    matches!(code, Some("42P07" | "23505" | "42710"))
}

/// Removes a bounded part of what was received before; whether there may be more.
pub(super) async fn purge(pool: &Pool, before_ms: u64) -> Result<bool, sqlx::Error> {
    let removed = match pool {
        Pool::Sqlite(pool) => {
            let statement = sqlx::query(PURGE_SQLITE).bind(first_id(before_ms));
            statement
                .bind(ROWS_MAX)
                .execute(pool)
                .await?
                .rows_affected()
        }
        Pool::MySql(pool) => {
            let statement = sqlx::query(PURGE_MYSQL).bind(first_id(before_ms));
            statement
                .bind(ROWS_MAX)
                .execute(pool)
                .await?
                .rows_affected()
        }
        Pool::Postgres(pool) => return drop_partition(pool, before_ms).await,
    };
    Ok(i64::try_from(removed).unwrap_or(0) >= ROWS_MAX)
}

/// No event id of that time or later is less: it begins with the time.
fn first_id(ms: u64) -> Uuid {
    Builder::from_unix_timestamp_millis(ms, &[0; 10]).into_uuid()
}

/// Drops one partition of a day that has ended before; whether there are more of them.
async fn drop_partition(pool: &PgPool, before_ms: u64) -> Result<bool, sqlx::Error> {
    let first_day = day_of(i64::try_from(before_ms).unwrap_or(i64::MAX));
    let names = sqlx::query(PARTITIONS).fetch_all(pool).await?;
    let mut old: Vec<i64> = names
        .iter()
        .filter_map(|row| {
            let name: String = row.try_get(0).ok()?;
            let day = name.rsplit_once(NAME)?.1.parse().ok()?;
            (day < first_day).then_some(day)
        })
        .collect();
    let Some(day) = old.pop() else {
        return Ok(false);
    };
    let statement = format!("DROP TABLE IF EXISTS {NAME}{day}");
    sqlx::query(AssertSqlSafe(statement)).execute(pool).await?;
    Ok(!old.is_empty())
}
