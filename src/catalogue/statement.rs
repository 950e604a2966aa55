//! One statement with its values, on a pool or in a transaction of whichever database.

use std::time::Duration;

use super::tables::Catalogue;
use crate::database::{Kind, Pool, Transaction, on, within};

/// The longest that one statement may take.
pub(super) const STATEMENT_MAX: Duration = Duration::from_mins(1);

/// A value of a statement.
#[derive(Clone, Copy)]
pub(super) enum Value<'v> {
    Text(&'v str),
    Number(i64),
    Bytes(&'v [u8]),
}

macro_rules! bound {
    ($sql:ident, $text:expr, $values:expr) => {{
        let query = sqlx::query::<$sql>($text);
        $values.iter().fold(query, |query, value| match value {
            Value::Text(text) => query.bind(*text),
            Value::Number(number) => query.bind(*number),
            Value::Bytes(bytes) => query.bind(*bytes),
        })
    }};
}

/// Appends ` IN (…)` with these devices to a query about product ids and names.
macro_rules! of_devices {
    ($query:ident, $kind:expr, $devices:expr) => {
        match $kind {
            // Not with a list of VALUES, as the others have it and no other.
            $crate::database::Kind::MySql => {
                $query.push(" IN");
                $query.push_tuples($devices, |mut row, device| {
                    row.push_bind(device.product()).push_bind(device.name());
                });
            }
            $crate::database::Kind::Sqlite | $crate::database::Kind::Postgres => {
                $query.push(" IN (");
                $query.push_values($devices, |mut row, device| {
                    row.push_bind(device.product()).push_bind(device.name());
                });
                $query.push(")");
            }
        }
    };
}
pub(super) use of_devices;

impl Catalogue {
    /// Runs a statement whose values are marked `?`; gives how many rows it met.
    pub(super) async fn run(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, sqlx::Error> {
        let text = self.pool.kind().statement(sql);
        on!(Pool, &self.pool, Sql, pool => {
            let run = bound!(Sql, text, values).execute(pool);
            within(STATEMENT_MAX, run).await.map(|done| done.rows_affected())
        })
    }
}

/// The same in a transaction.
pub(super) async fn run_in(
    transaction: &mut Transaction,
    kind: Kind,
    sql: &'static str,
    values: &[Value<'_>],
) -> Result<u64, sqlx::Error> {
    let text = kind.statement(sql);
    on!(Transaction, transaction, Sql, connection => {
        let run = bound!(Sql, text, values).execute(&mut **connection);
        within(STATEMENT_MAX, run).await.map(|done| done.rows_affected())
    })
}
