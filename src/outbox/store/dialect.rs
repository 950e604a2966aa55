//! Where the databases differ, and one statement on whichever it is.

use std::fmt::Write as _;

use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{Kind, Pool, Transaction};

/// The channel on which PostgreSQL tells of each commit that has written events.
pub const CHANNEL: &str = "jetway_outbox";

/// The database's clock, in Unix milliseconds.
pub(super) const fn now(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        Kind::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        Kind::MySql => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    }
}

/// Numbers as an SQL list; one that is in no table if there are none.
pub(super) fn list<N: Into<i64>>(numbers: impl IntoIterator<Item = N>) -> String {
    let mut text = String::from("-2");
    for number in numbers {
        // Writing into a string does not fail.
        let _written = write!(text, ",{}", number.into());
    }
    text
}

/// Where an aggregate belongs: a number that tells it, and its shard of 64. The hash is FNV-1a, the same for ever.
pub(super) fn place(type_: &str, id: &str) -> (i64, i16) {
    const SEED: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    // No text has this byte, so no type runs into an id.
    let bytes = type_.bytes().chain([0xff]).chain(id.bytes());
    let hash = bytes.fold(SEED, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    // What names differ in, which is their end, has not reached the upper bits of the hash: they are mixed for the shard.
    let shard = i16::try_from(hash.wrapping_mul(MIX) >> 58).unwrap_or(0);
    (i64::from_ne_bytes(hash.to_ne_bytes()), shard)
}

/// Runs one expression on the connection of a transaction, of whichever kind.
macro_rules! on {
    ($transaction:expr, $connection:ident => $run:expr) => {
        match $transaction {
            Transaction::Sqlite(transaction) => {
                let $connection = &mut **transaction;
                $run
            }
            Transaction::Postgres(transaction) => {
                let $connection = &mut **transaction;
                $run
            }
            Transaction::MySql(transaction) => {
                let $connection = &mut **transaction;
                $run
            }
        }
    };
}
pub(super) use on;

/// Runs a statement that was put together of numbers; gives how many rows it changed.
pub(super) async fn run(transaction: &mut Transaction, text: String) -> Result<u64, sqlx::Error> {
    on!(transaction, connection => {
        let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await?;
        Ok(done.rows_affected())
    })
}

/// The rows of a query that was put together of numbers.
pub(super) async fn all<T: Read>(
    transaction: &mut Transaction,
    text: String,
) -> Result<Vec<T>, sqlx::Error> {
    on!(transaction, connection => {
        let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await?;
        rows.iter().map(T::from_row).collect()
    })
}

/// The same outside of a transaction.
pub(super) async fn look<T: Read>(pool: &Pool, text: String) -> Result<Vec<T>, sqlx::Error> {
    let query = sqlx::raw_sql(AssertSqlSafe(text));
    match pool {
        Pool::Sqlite(pool) => query
            .fetch_all(pool)
            .await?
            .iter()
            .map(T::from_row)
            .collect(),
        Pool::Postgres(pool) => query
            .fetch_all(pool)
            .await?
            .iter()
            .map(T::from_row)
            .collect(),
        Pool::MySql(pool) => query
            .fetch_all(pool)
            .await?
            .iter()
            .map(T::from_row)
            .collect(),
    }
}

/// What can be read from a row of any of the databases.
pub(super) trait Read:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, MySqlRow>
{
}

impl<T> Read for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, MySqlRow>
{
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_keeps_its_place_and_shards_are_filled_alike() {
        // Rows of earlier versions are in the table: this must not change.
        assert_eq!(
            place("device", "p/d"),
            (1_187_763_014_975_716_663, 9),
            "the hash is another one"
        );
        assert_ne!(place("ab", "c").0, place("a", "bc").0);
        let names: [fn(u32) -> String; 3] = [
            |number| format!("p/{number}"),
            |number| format!("product-{}/d", number),
            |number| format!("p/{number:012x}"),
        ];
        for name in names {
            let mut counts = [0; 64];
            for number in 0..6_400 {
                let (_, shard) = place("device", &name(number));
                counts[usize::try_from(shard).unwrap()] += 1;
            }
            let fair = |count: &i32| (50..200).contains(count);
            assert!(counts.iter().all(fair), "{}: {counts:?}", name(0));
        }
    }
}
