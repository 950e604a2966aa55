//! One text for the three kinds, where their types differ and nothing else.

/// Runs an expression over a [`Pool`](super::Pool) or a [`Transaction`](super::Transaction) of any kind. `$on` is what the variant
/// holds in it, and `$sql` sqlx's type of the database.
macro_rules! on {
    ($type:ident, $value:expr, $sql:ident, $on:ident => $run:expr) => {
        match $value {
            $type::Sqlite($on) => {
                type $sql = sqlx::Sqlite;
                $run
            }
            $type::Postgres($on) => {
                type $sql = sqlx::Postgres;
                $run
            }
            $type::MySql($on) => {
                type $sql = sqlx::MySql;
                $run
            }
        }
    };
}
pub(crate) use on;
