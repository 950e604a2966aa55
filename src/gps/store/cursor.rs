//! How far a shard is: a row that is written only over the one that its writer has read, in the transaction of what it stands for.
//!
//! Its row is the first thing that a transaction writes, so of two workers that believe they have the shard the second waits for the
//! first and is then told that the cursor is not where it was.

use sqlx::FromRow;

use crate::database::{Pool, Transaction};

/// A place in the stream of uplinks, and in which division of devices that is meant.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Cursor {
    /// Of how many shards this is one.
    pub shards: i32,
    /// The stream.
    pub stream: String,
    /// When it was created, as the server writes it: in a successor of the same name the sequence means nothing.
    pub created: String,
    /// The same, Unix nanoseconds.
    pub created_ns: i64,
    /// Everything up to here is in the tables.
    pub sequence: i64,
}

const READ: &str =
    "SELECT shards, stream, created, created_ns, sequence FROM gps_cursor WHERE shard = ?";
const READ_POSTGRES: &str =
    "SELECT shards, stream, created, created_ns, sequence FROM gps_cursor WHERE shard = $1";
const READ_ALL: &str =
    "SELECT shards, stream, created, created_ns, sequence FROM gps_cursor ORDER BY shard";
const BEGIN: &str = "INSERT INTO gps_cursor (shards, stream, created, created_ns, sequence, shard) VALUES (?, ?, ?, ?, ?, ?)";
const BEGIN_POSTGRES: &str = "INSERT INTO gps_cursor (shards, stream, created, created_ns, sequence, shard) \
     VALUES ($1, $2, $3, $4, $5, $6)";
const MOVE: &str = "UPDATE gps_cursor SET shards = ?, stream = ?, created = ?, created_ns = ?, sequence = ? \
     WHERE shard = ? AND stream = ? AND created = ? AND sequence = ?";
const MOVE_POSTGRES: &str = "UPDATE gps_cursor SET shards = $1, stream = $2, created = $3, created_ns = $4, sequence = $5 \
     WHERE shard = $6 AND stream = $7 AND created = $8 AND sequence = $9";

/// That of a shard; none before its first batch.
pub(super) async fn read(pool: &Pool, shard: i32) -> Result<Option<Cursor>, sqlx::Error> {
    match pool {
        Pool::Sqlite(pool) => sqlx::query_as(READ).bind(shard).fetch_optional(pool).await,
        Pool::Postgres(pool) => {
            let read = sqlx::query_as(READ_POSTGRES).bind(shard);
            read.fetch_optional(pool).await
        }
        Pool::MySql(pool) => sqlx::query_as(READ).bind(shard).fetch_optional(pool).await,
    }
}

/// Those of all shards that have one.
pub(super) async fn read_all(pool: &Pool) -> Result<Vec<Cursor>, sqlx::Error> {
    match pool {
        Pool::Sqlite(pool) => sqlx::query_as(READ_ALL).fetch_all(pool).await,
        Pool::Postgres(pool) => sqlx::query_as(READ_ALL).fetch_all(pool).await,
        Pool::MySql(pool) => sqlx::query_as(READ_ALL).fetch_all(pool).await,
    }
}

/// Moves the cursor of a shard from where it was, none for its first time; whether it was there.
pub(super) async fn advance(
    transaction: &mut Transaction,
    shard: i32,
    from: Option<&Cursor>,
    to: &Cursor,
) -> Result<bool, sqlx::Error> {
    macro_rules! statement {
        ($connection:expr, $begin:expr, $move:expr) => {{
            let statement = sqlx::query(if from.is_some() { $move } else { $begin })
                .bind(to.shards)
                .bind(&to.stream)
                .bind(&to.created)
                .bind(to.created_ns)
                .bind(to.sequence)
                .bind(shard);
            let statement = match from {
                None => statement,
                Some(from) => statement
                    .bind(&from.stream)
                    .bind(&from.created)
                    .bind(from.sequence),
            };
            statement.execute(&mut **$connection).await?.rows_affected()
        }};
    }
    let affected = match transaction {
        Transaction::Sqlite(connection) => statement!(connection, BEGIN, MOVE),
        Transaction::Postgres(connection) => statement!(connection, BEGIN_POSTGRES, MOVE_POSTGRES),
        Transaction::MySql(connection) => statement!(connection, BEGIN, MOVE),
    };
    Ok(affected == 1)
}
