//! Tables of one owner, brought up to date on each kind of database.
//!
//! MySQL and MariaDB commit each statement that changes a table at once. A migration of theirs that was cut off is run again from
//! its beginning, so its statements must bear that (`IF NOT EXISTS`, indexes inside `CREATE TABLE`).

use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor as _};

use super::{Error, Fate, Pool, within};

/// How long the tables of another program's version may take, in which nobody else changes tables.
const TURN_MAX: Duration = Duration::from_secs(60);
/// The most that one migration takes, with all rows that it changes.
const MIGRATION_MAX: Duration = Duration::from_mins(10);
/// MySQL and MariaDB: the lock of those who change tables of this database.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('jetway ', SHA1(DATABASE())), ?)";
/// MySQL and MariaDB: no such table.
const NO_TABLE: u16 = 1146;

/// The migrations of one owner's tables, for each kind of database.
pub struct Schema {
    /// Where the database remembers which of them it has: owners share a database.
    pub applied: &'static str,
    /// For SQLite.
    pub sqlite: Migrator,
    /// For PostgreSQL.
    pub postgres: Migrator,
    /// For MySQL and MariaDB.
    pub mysql: Migrator,
}

impl Pool {
    /// Brings the tables of `schema` up to date; programs that do so at the same time wait for each other.
    ///
    /// # Errors
    /// [`Error::Schema`] when they are not ours or newer than this program, or the database does not answer;
    /// [`Error::fate`] tells which.
    pub async fn migrate(&self, schema: Schema) -> Result<(), Error> {
        let mut migrator = match self {
            Self::Sqlite(_) => schema.sqlite,
            Self::Postgres(_) => schema.postgres,
            Self::MySql(_) => schema.mysql,
        };
        migrator.dangerous_set_table_name(schema.applied);
        // Its lock has no limit on MySQL, and does not lock on MariaDB.
        migrator.set_locking(!matches!(self, Self::MySql(_)));
        let begun = Instant::now();
        loop {
            let migrated = within(MIGRATION_MAX, async {
                Ok(self.migrate_with(&migrator, schema.applied).await)
            });
            let migrated = migrated.await.unwrap_or_else(|late| Err(late.into()));
            match migrated.map_err(Error::Schema) {
                Err(error) if error.fate() == Fate::Conflict && begun.elapsed() < TURN_MAX => {}
                migrated => return migrated,
            }
        }
    }

    /// Each on a connection that is closed after it: when it fails the migrator leaves its lock to the connection.
    async fn migrate_with(&self, migrator: &Migrator, applied: &str) -> Result<(), MigrateError> {
        match self {
            Self::Sqlite(pool) => {
                // The migrator locks the servers itself, and SQLite not at all.
                let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
                migrator.run_direct(None, &mut *transaction, false).await?;
                Ok(transaction.commit().await?)
            }
            Self::Postgres(pool) => {
                let mut connection = pool.acquire().await?;
                connection.close_on_drop();
                migrator.run_direct(None, &mut *connection, false).await
            }
            Self::MySql(pool) => {
                let mut connection = pool.acquire().await?;
                connection.close_on_drop();
                lock(&mut connection).await?;
                forget_cut_off(&mut connection, applied).await?;
                migrator.run_direct(None, &mut *connection, false).await
            }
        }
    }
}

async fn lock(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let locked: Option<i64> = sqlx::query_scalar(LOCK)
        .bind(TURN_MAX.as_secs())
        .fetch_one(connection)
        .await?;
    match locked {
        Some(1) => Ok(()),
        _ => Err(sqlx::Error::PoolTimedOut),
    }
}

/// The migrator refuses for ever to go on with a migration that was cut off. With the lock nobody is in the middle of one.
async fn forget_cut_off(
    connection: &mut MySqlConnection,
    applied: &str,
) -> Result<(), sqlx::Error> {
    let forget = AssertSqlSafe(format!("DELETE FROM {applied} WHERE NOT success"));
    match connection.execute(forget).await {
        Err(sqlx::Error::Database(error))
            if error
                .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
                .is_some_and(|error| error.number() == NO_TABLE) =>
        {
            Ok(())
        }
        forgotten => forgotten.map(drop),
    }
}
