//! Whether a database refuses what a row says, and would take another one: only then is a report given up for it.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::sqlite::SqliteError;

use crate::database::{Fate, fate};

/// Classes of SQLSTATE that are about data: data exception, integrity constraint, check option, raised by a trigger.
const ABOUT_DATA: [&str; 5] = ["22", "23", "44", "45", "P0"];
/// MySQL and MariaDB, without a SQLSTATE of their own: incorrect string value, a check constraint.
const MYSQL_ABOUT_DATA: [u16; 2] = [1366, 3819];
/// SQLite: too big, constraint, mismatch; in the low byte of the extended code.
const SQLITE_ABOUT_DATA: [i32; 3] = [18, 19, 20];

/// Whether the error is about what was to be written, and not about the table, the right to write it, or the database.
pub(super) fn is_about_row(error: &sqlx::Error) -> bool {
    if fate(error) != Fate::Refused {
        return false;
    }
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<SqliteError>().is_some() {
        let code = code.parse::<i32>().unwrap_or(0);
        return SQLITE_ABOUT_DATA.contains(&(code & 0xff));
    }
    let number = error
        .try_downcast_ref::<MySqlDatabaseError>()
        .map(MySqlDatabaseError::number);
    let class = code.get(..2).unwrap_or_default();
    ABOUT_DATA.contains(&class) || number.is_some_and(|number| MYSQL_ABOUT_DATA.contains(&number))
}
