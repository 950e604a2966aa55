//! What goes wrong with a database, and whether it is worth another try.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::sqlite::SqliteError;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a database that is known here.
    #[error("database URL: expected sqlite:, postgres: or mysql:, found the scheme {0:?}")]
    Url(String),
    /// The folder of the database file.
    #[error("database folder {0:?} cannot be made")]
    Folder(PathBuf, #[source] io::Error),
    /// No connection.
    #[error("database: cannot open it")]
    Open(#[source] sqlx::Error),
    /// The tables.
    #[error("database: its tables cannot be brought up to date")]
    Schema(#[source] MigrateError),
}

impl Error {
    /// Whether the same may succeed later: a database that is away, or others that bring tables up to date.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match self {
            Self::Url(_) => Fate::Refused,
            Self::Folder(..) => Fate::Unavailable,
            Self::Open(error)
            | Self::Schema(
                MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _),
            ) => fate(error),
            Self::Schema(_) => Fate::Refused,
        }
    }
}

/// What a failed statement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nobody answered, or not in time, or the database is not in the state to do it (read-only, full, without its tables, or it
    /// does not let us in): the same may succeed later. What was asked for may be done or not.
    Unavailable,
    /// Others were in the way (deadlock, lock wait, serialization): nothing was done once the transaction is dropped, and the same
    /// may succeed at once.
    Conflict,
    /// A row like that exists.
    Duplicate,
    /// These values are not to be had there (too long, out of range, against a constraint), and never will.
    Refused,
}

/// Classes of SQLSTATE that are about the values: cardinality, data, integrity, check option, program limits (an index row that is
/// too large), and what a trigger raised (PostgreSQL, MySQL).
const ABOUT_VALUES: [&str; 7] = ["21", "22", "23", "44", "54", "P0", "45"];
/// PostgreSQL: lock not available, beside all of class 40 (transaction rollback).
const POSTGRES_LOCKED: &str = "55P03";
/// MySQL and MariaDB: record changed since it was read, lock wait timeout, deadlock, NOWAIT.
const MYSQL_CONFLICTS: [u16; 4] = [1020, 1205, 1213, 3572];
/// MySQL and MariaDB, under SQLSTATEs that say less: row too large, packet too large, data truncated, no default, incorrect value,
/// incorrect string, check constraint.
const MYSQL_ABOUT_VALUES: [u16; 7] = [1118, 1153, 1265, 1292, 1364, 1366, 3819];
/// SQLite, without what extends a code: busy, locked.
const SQLITE_CONFLICTS: [i32; 2] = [5, 6];
/// SQLite, without what extends a code: too big, constraint, mismatch.
const SQLITE_ABOUT_VALUES: [i32; 3] = [18, 19, 20];

/// What this error means for what was asked. Of what is not known it is taken that it says nothing about the values: to wait for an
/// operator loses nothing.
#[must_use]
pub fn fate(error: &sqlx::Error) -> Fate {
    match error {
        sqlx::Error::Database(error) => of_database(&**error),
        // No value of the database's.
        sqlx::Error::Encode(_) => Fate::Refused,
        _ => Fate::Unavailable,
    }
}

fn of_database(error: &dyn DatabaseError) -> Fate {
    if error.is_unique_violation() {
        return Fate::Duplicate;
    }
    let code = error.code().unwrap_or_default();
    let class = code.get(..2).unwrap_or_default();
    let (conflicts, about_values) = if error.try_downcast_ref::<SqliteError>().is_some() {
        let primary = code.parse::<i32>().unwrap_or_default() & 0xff;
        (
            SQLITE_CONFLICTS.contains(&primary),
            SQLITE_ABOUT_VALUES.contains(&primary),
        )
    } else if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
        (
            MYSQL_CONFLICTS.contains(&error.number()),
            ABOUT_VALUES.contains(&class) || MYSQL_ABOUT_VALUES.contains(&error.number()),
        )
    } else if error
        .try_downcast_ref::<PgDatabaseError>()
        .is_some_and(|error| error.severity() != PgSeverity::Error)
    {
        // It has ended the connection.
        return Fate::Unavailable;
    } else {
        let conflicts = class == "40" || code == POSTGRES_LOCKED;
        (conflicts, ABOUT_VALUES.contains(&class))
    };
    match (conflicts, about_values) {
        (true, _) => Fate::Conflict,
        (false, true) => Fate::Refused,
        (false, false) => Fate::Unavailable,
    }
}

/// What a future over the database gives within `limit`; after it the error is [`Unavailable`](Fate::Unavailable), and a
/// connection that was in use leaves its pool if it goes on to say nothing.
///
/// # Errors
/// The future's, and the end of its time.
pub async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let late = |_elapsed| {
        let text = format!("the database did not answer within {limit:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
    };
    let answered = tokio::time::timeout(limit, future).await;
    answered.unwrap_or_else(late)
}
