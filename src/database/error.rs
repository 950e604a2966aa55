//! What goes wrong with a database, and whether it is worth another try.

use std::path::PathBuf;

use sqlx::migrate::MigrateError;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a database that is known here.
    #[error("database URL: expected sqlite:, postgres: or mysql:, found the scheme {0:?}")]
    Url(String),
    /// The folder of the database file.
    #[error("database folder {0:?} cannot be made")]
    Folder(PathBuf, #[source] std::io::Error),
    /// No connection.
    #[error("database: cannot open it")]
    Open(#[source] sqlx::Error),
    /// The tables.
    #[error("database: its tables cannot be brought up to date")]
    Schema(#[source] MigrateError),
}

/// What a failed statement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nobody answered, or not in time: the same may succeed later, and what was asked for may be done or not.
    Unavailable,
    /// Others were in the way (deadlock, lock wait, serialization): nothing was done, and the same may succeed at once.
    Conflict,
    /// A row like that exists.
    Duplicate,
    /// The database does not want what was asked for, and never will.
    Refused,
}

/// Classes of SQLSTATE that say nothing about the statement: connection, resources, operator.
const UNAVAILABLE: [&str; 5] = ["08", "53", "57", "58", "HY"];
/// SQLite: busy and locked, with their extended codes.
const SQLITE_CONFLICTS: [&str; 6] = ["5", "6", "261", "262", "517", "773"];
/// SQLite: I/O error, full disk, cannot open, read-only.
const SQLITE_UNAVAILABLE: [&str; 4] = ["8", "10", "13", "14"];
/// MySQL and MariaDB: lock wait timeout, deadlock.
const MYSQL_CONFLICTS: [u16; 2] = [1205, 1213];
/// MySQL and MariaDB: too many connections, shutdown, statement interrupted or too long, read-only.
const MYSQL_UNAVAILABLE: [u16; 7] = [1040, 1053, 1203, 1290, 1317, 1836, 1969];

/// What this error means for what was asked.
#[must_use]
pub fn fate(error: &sqlx::Error) -> Fate {
    let sqlx::Error::Database(error) = error else {
        return match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Fate::Unavailable,
            _ => Fate::Refused,
        };
    };
    if error.is_unique_violation() {
        return Fate::Duplicate;
    }
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return match error.number() {
            number if MYSQL_CONFLICTS.contains(&number) => Fate::Conflict,
            number if MYSQL_UNAVAILABLE.contains(&number) => Fate::Unavailable,
            _ => Fate::Refused,
        };
    }
    let code = error.code().unwrap_or_default();
    let class = code.get(..2).unwrap_or_default();
    let is_sqlite = error
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some();
    match is_sqlite {
        true if SQLITE_CONFLICTS.contains(&&*code) => Fate::Conflict,
        true if SQLITE_UNAVAILABLE.contains(&&*code) => Fate::Unavailable,
        // PostgreSQL: transaction rollback, lock not available.
        false if class == "40" || code == "55P03" => Fate::Conflict,
        // Read-only: a standby that was asked before it is promoted.
        false if UNAVAILABLE.contains(&class) || code == "25006" => Fate::Unavailable,
        _ => Fate::Refused,
    }
}
