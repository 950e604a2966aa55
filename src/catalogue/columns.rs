//! A row of whichever database, column by column.

use sqlx::Row as _;
use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

/// Columns by their number. Unchecked: names are bytes on MySQL, and text all the same.
pub(super) trait Columns {
    fn text(&self, column: usize) -> Result<String, sqlx::Error>;
    fn text_or_null(&self, column: usize) -> Result<Option<String>, sqlx::Error>;
    fn number(&self, column: usize) -> Result<i64, sqlx::Error>;
    fn number_or_null(&self, column: usize) -> Result<Option<i64>, sqlx::Error>;
    fn bytes(&self, column: usize) -> Result<Vec<u8>, sqlx::Error>;
}

macro_rules! columns {
    ($($row:ty),*) => {
        $(impl Columns for $row {
            fn text(&self, column: usize) -> Result<String, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn text_or_null(&self, column: usize) -> Result<Option<String>, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn number(&self, column: usize) -> Result<i64, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn number_or_null(&self, column: usize) -> Result<Option<i64>, sqlx::Error> {
                self.try_get_unchecked(column)
            }

            fn bytes(&self, column: usize) -> Result<Vec<u8>, sqlx::Error> {
                self.try_get_unchecked(column)
            }
        })*
    };
}
columns!(SqliteRow, PgRow, MySqlRow);
