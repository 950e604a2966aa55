//! One text of a statement for three databases, where they differ in the marks of values, the clock and little else.
//!
//! `?` is a value, `{now}` the database's clock in Unix milliseconds, `{or_nothing KEY}` behind an INSERT keeps the row
//! that is there, KEY being a column of its key, `{lock}` behind a SELECT locks what it reads. Statements run in a transaction; the texts are constants of ours.

use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::query::Query;
use sqlx::sqlite::SqliteRow;
use sqlx::{Arguments as _, AssertSqlSafe, Database, Decode, Encode, MySql, Postgres, Row as _};
use sqlx::{Sqlite, Type};
use uuid::Uuid;

use crate::database::{Kind, Transaction};

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<&'a str>),
    Id(Uuid),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<Option<f64>> for Value<'_> {
    fn from(value: Option<f64>) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Uuid> for Value<'_> {
    fn from(value: Uuid) -> Self {
        Self::Id(value)
    }
}

/// A row of a result.
#[derive(Debug)]
pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    MySql(MySqlRow),
}

impl Row {
    /// The value of a column, counted from 0; integers may be of any width there.
    pub(super) fn get<T>(&self, column: usize) -> Result<T, sqlx::Error>
    where
        T: for<'r> Decode<'r, Sqlite> + for<'r> Decode<'r, Postgres> + for<'r> Decode<'r, MySql>,
    {
        match self {
            Self::Sqlite(row) => row.try_get_unchecked(column),
            Self::Postgres(row) => row.try_get_unchecked(column),
            Self::MySql(row) => row.try_get_unchecked(column),
        }
    }
}

/// Runs a statement; gives how many rows it met.
pub(super) async fn execute(
    on: &mut Transaction,
    sql: &'static str,
    values: &[Value<'_>],
) -> Result<u64, sqlx::Error> {
    Ok(match on {
        Transaction::Sqlite(on) => {
            let query = query::<Sqlite>(Kind::Sqlite, sql, values)?;
            Box::pin(query.execute(&mut **on)).await?.rows_affected()
        }
        Transaction::Postgres(on) => {
            let query = query::<Postgres>(Kind::Postgres, sql, values)?;
            Box::pin(query.execute(&mut **on)).await?.rows_affected()
        }
        Transaction::MySql(on) => {
            let query = query::<MySql>(Kind::MySql, sql, values)?;
            Box::pin(query.execute(&mut **on)).await?.rows_affected()
        }
    })
}

/// Runs a statement; gives its rows.
pub(super) async fn rows(
    on: &mut Transaction,
    sql: &'static str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, sqlx::Error> {
    Ok(match on {
        Transaction::Sqlite(on) => {
            let query = query::<Sqlite>(Kind::Sqlite, sql, values)?;
            let rows = Box::pin(query.fetch_all(&mut **on)).await?;
            rows.into_iter().map(Row::Sqlite).collect()
        }
        Transaction::Postgres(on) => {
            let query = query::<Postgres>(Kind::Postgres, sql, values)?;
            let rows = Box::pin(query.fetch_all(&mut **on)).await?;
            rows.into_iter().map(Row::Postgres).collect()
        }
        Transaction::MySql(on) => {
            let query = query::<MySql>(Kind::MySql, sql, values)?;
            let rows = Box::pin(query.fetch_all(&mut **on)).await?;
            rows.into_iter().map(Row::MySql).collect()
        }
    })
}

fn query<D>(
    kind: Kind,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Query<'static, D, D::Arguments>, sqlx::Error>
where
    D: Database,
    D::Arguments: sqlx::IntoArguments<D>,
    Option<i64>: for<'t> Encode<'t, D> + Type<D>,
    Option<f64>: for<'t> Encode<'t, D> + Type<D>,
    for<'t> Option<&'t str>: Encode<'t, D> + Type<D>,
    Uuid: for<'t> Encode<'t, D> + Type<D>,
{
    let mut arguments = D::Arguments::default();
    let added = values.iter().try_for_each(|value| match *value {
        Value::Int(value) => arguments.add(value),
        Value::Float(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Id(value) => arguments.add(value),
    });
    added.map_err(sqlx::Error::Encode)?;
    Ok(sqlx::query_with(AssertSqlSafe(text(kind, sql)), arguments))
}

/// The text as a database wants it.
fn text(kind: Kind, sql: &str) -> String {
    let (now, lock) = match kind {
        Kind::Sqlite => (
            "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)",
            "",
        ),
        Kind::Postgres => (
            "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
            "FOR UPDATE",
        ),
        Kind::MySql => (
            "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
            "FOR UPDATE",
        ),
    };
    let mut sql = sql.replace("{now}", now).replace("{lock}", lock);
    if let Some((insert, key)) = sql.split_once("{or_nothing ") {
        let key = key.trim_end_matches('}');
        sql = match kind {
            Kind::Sqlite | Kind::Postgres => format!("{insert}ON CONFLICT DO NOTHING"),
            // An assignment that changes nothing: IGNORE would hide other errors as well.
            Kind::MySql => format!("{insert}ON DUPLICATE KEY UPDATE {key} = {key}"),
        };
    }
    if kind != Kind::Postgres {
        return sql;
    }
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        text.push_str(&format!("${number}{part}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_for_postgresql_only() {
        let sql = "UPDATE t SET a = ? WHERE b = ?";
        assert_eq!(text(Kind::Sqlite, sql), sql);
        assert_eq!(text(Kind::MySql, sql), sql);
        assert_eq!(
            text(Kind::Postgres, sql),
            "UPDATE t SET a = $1 WHERE b = $2"
        );
    }
}
