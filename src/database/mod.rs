//! One SQL database of three kinds: SQLite inside the process, PostgreSQL and MySQL or MariaDB for production.
//!
//! A pool, its transactions, and schemas brought up to date. It knows no table: who keeps rows writes its statements for each kind
//! and owns the migrations. Nothing waits for a database without a limit.

mod config;
mod error;
mod on;
mod pool;
mod schema;
mod session;
mod transaction;

pub use config::Config;
pub use error::{Error, Fate, fate, within};
pub(crate) use on::on;
pub use pool::{Kind, Pool};
pub use schema::Schema;
pub use transaction::Transaction;
