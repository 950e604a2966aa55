//! Tables of one owner, brought up to date on each kind of database.

use sqlx::migrate::{MigrateError, Migrator};

use super::{Error, Pool};

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
    /// [`Error::Schema`] when they are not ours or newer than this program, or the database does not answer.
    pub async fn migrate(&self, schema: Schema) -> Result<(), Error> {
        let Schema {
            applied,
            sqlite,
            postgres,
            mysql,
        } = schema;
        let migrated = match self {
            Self::Sqlite(pool) => {
                // The migrator locks the servers itself, and SQLite not at all.
                let migrate = async {
                    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
                    named(sqlite, applied).run(&mut *transaction).await?;
                    Ok::<_, MigrateError>(transaction.commit().await?)
                };
                migrate.await
            }
            Self::Postgres(pool) => named(postgres, applied).run(pool).await,
            Self::MySql(pool) => named(mysql, applied).run(pool).await,
        };
        migrated.map_err(Error::Schema)
    }
}

fn named(mut migrator: Migrator, applied: &'static str) -> Migrator {
    migrator.dangerous_set_table_name(applied);
    migrator
}
