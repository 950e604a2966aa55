//! Reports, latest positions, tracks and cursors in their database: SQLite, PostgreSQL, MySQL and MariaDB.
//!
//! Statements only: what a batch is and when it is kept is the worker's matter. Each database has its statements in a file of its
//! own; tests run one text against all of them.

mod bind;
mod cursor;
mod history;
mod latest;
mod mysql;
mod postgres;
mod row;
mod sqlite;
mod tables;

pub use cursor::Cursor;
pub use history::day_of;
pub use latest::Latest;
pub use row::Row;
pub use tables::{Batch, Tables};
