//! How far a job is in the history of reports, and how far it may go.
//!
//! The GPS workers write their shards side by side: behind the least of their cursors nothing comes any more, in the order of
//! stream, sequence and place in the message. That is as far as a job reads, so it passes no report.

use crate::database::Transaction;
use crate::jobs::statement::{Row, Value, execute, rows};

const CURSORS: &str = "SELECT shards, created_ns, sequence FROM gps_cursor";
const READ: &str = "SELECT stream_created_ns, sequence, point FROM job_position WHERE name = ?";
const ADD: &str = "INSERT INTO job_position (name, stream_created_ns, sequence, point) \
     VALUES (?, 0, 0, 0) {or_nothing name}";
const WRITE: &str =
    "UPDATE job_position SET stream_created_ns = ?, sequence = ?, point = ? WHERE name = ?";
const NEXT_STREAM: &str =
    "SELECT MIN(stream_created_ns) FROM gps_report WHERE stream_created_ns > ?";
const REPORTS: &str = "SELECT sequence, point, product_id, device_name, at_ms, device_ms, received_ms, latitude, longitude, \
     coordinate_system, speed_mps, flags FROM gps_report WHERE stream_created_ns = ? \
     AND sequence >= ? AND (sequence > ? OR point > ?) AND sequence <= ? \
     ORDER BY sequence, point LIMIT ?";

/// A place in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) created_ns: i64,
    pub(super) sequence: i64,
    pub(super) point: i64,
}

/// Reports behind a position.
pub(super) struct Batch {
    /// Its columns from the third on are those of a report: product, device, times, place, speed, flags.
    pub(super) rows: Vec<Row>,
    /// Where the next one begins.
    pub(super) end: Position,
    pub(super) is_last: bool,
}

/// Where a job is; at the first report if it has never been anywhere.
pub(super) async fn position(on: &mut Transaction, name: &str) -> Result<Position, sqlx::Error> {
    execute(on, ADD, &[name.into()]).await?;
    let rows = rows(on, READ, &[name.into()]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Position {
        created_ns: row.get(0)?,
        sequence: row.get(1)?,
        point: row.get(2)?,
    })
}

/// Writes where a job is from now on.
pub(super) async fn advance(
    on: &mut Transaction,
    name: &str,
    to: Position,
) -> Result<(), sqlx::Error> {
    let values: [Value<'_>; 4] = [
        to.created_ns.into(),
        to.sequence.into(),
        to.point.into(),
        name.into(),
    ];
    execute(on, WRITE, &values).await.map(drop)
}

/// Up to where nothing is written any more; none before every shard has begun.
pub(super) async fn bound(on: &mut Transaction) -> Result<Option<Position>, sqlx::Error> {
    let rows = rows(on, CURSORS, &[]).await?;
    let mut least: Option<Position> = None;
    for row in &rows {
        let shards: i64 = row.get(0)?;
        if i64::try_from(rows.len()).unwrap_or(0) < shards {
            return Ok(None);
        }
        let cursor = Position {
            created_ns: row.get(1)?,
            sequence: row.get(2)?,
            point: i64::MAX,
        };
        least = Some(least.map_or(cursor, |least| least.min(cursor)));
    }
    Ok(least)
}

/// At most `limit` reports behind `from` and not behind `bound`.
pub(super) async fn batch(
    on: &mut Transaction,
    from: Position,
    bound: Position,
    limit: usize,
) -> Result<Batch, sqlx::Error> {
    // An older stream is whole, whatever is the last of it.
    let until = match from.created_ns < bound.created_ns {
        true => i64::MAX,
        false => bound.sequence,
    };
    let values: [Value<'_>; 6] = [
        from.created_ns.into(),
        from.sequence.into(),
        from.sequence.into(),
        from.point.into(),
        until.into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ];
    let found = rows(on, REPORTS, &values).await?;
    let is_full = found.len() >= limit;
    let end = match found.last() {
        Some(last) if is_full => Position {
            created_ns: from.created_ns,
            sequence: last.get(0)?,
            point: last.get(1)?,
        },
        _ if from.created_ns >= bound.created_ns => bound.max(from),
        _ => next_stream(on, from, bound).await?,
    };
    Ok(Batch {
        is_last: !is_full && end >= bound,
        rows: found,
        end,
    })
}

/// The begin of the next stream that there are reports of.
async fn next_stream(
    on: &mut Transaction,
    from: Position,
    bound: Position,
) -> Result<Position, sqlx::Error> {
    let rows = rows(on, NEXT_STREAM, &[from.created_ns.into()]).await?;
    let next: Option<i64> = rows.first().map(|row| row.get(0)).transpose()?.flatten();
    Ok(Position {
        created_ns: next.unwrap_or(bound.created_ns).min(bound.created_ns),
        sequence: 0,
        point: 0,
    })
}
