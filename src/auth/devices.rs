//! Products and devices in the SQL database: the only place with SQL about them.
//!
//! It does not cache and does not judge logins. The database is SQLite; the statements and the schema in
//! `migrations/` keep to SQL that PostgreSQL and MySQL share.
//!
//! Invariants: a batch of new devices is stored whole or not at all; an existing device is never overwritten.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions};
use sqlx::{Sqlite, Transaction};

use crate::auth::credentials::Secret;
use crate::device::{self, DeviceId};
use crate::telemetry;

/// How many random bytes a new device's secret has.
const SECRET_BYTES: usize = 20;

/// What SQLite calls a file that another program holds, and how long to wait before asking again.
const SQLITE_BUSY: &str = "5";
const BUSY_PAUSE: Duration = Duration::from_millis(10);

const FIND: &str =
    "SELECT secret, enabled, created_at_ms FROM device WHERE product_id = ? AND name = ?";
/// One statement for all products and for one: without a product the column is compared with itself.
const LIST: &str = "SELECT product_id, name, secret, enabled, created_at_ms FROM device \
     WHERE product_id = COALESCE(?, product_id) ORDER BY product_id, name";
const ADD_PRODUCT: &str = "INSERT INTO product (id, created_at_ms) \
     SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM product WHERE id = ?)";
const ADD_DEVICE: &str = "INSERT INTO device (product_id, name, secret, enabled, created_at_ms) \
     VALUES (?, ?, ?, ?, ?)";

/// How the database of devices is used.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many connections to the database may be open.
    pub connections_max: u32,
    /// How long a statement may wait for a free connection, and then for another writer.
    pub busy_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections_max: 4,
            busy_timeout_ms: 5_000,
        }
    }
}

impl Config {
    /// All faults, each naming its key and what was expected; none when it can be used.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=100).contains(&self.connections_max) {
            faults.push(format!(
                "connections_max is {}, expected 1 to 100",
                self.connections_max
            ));
        }
        if !(1..=60_000).contains(&self.busy_timeout_ms) {
            faults.push(format!(
                "busy_timeout_ms is {}, expected 1 to 60000",
                self.busy_timeout_ms
            ));
        }
        faults
    }
}

/// A device as the database holds it. Has no `Debug`: it holds a secret.
#[derive(Clone)]
pub struct Record {
    /// Its identity.
    pub device: DeviceId,
    /// What it proves its logins with.
    pub secret: Secret,
    /// Whether it may log in.
    pub enabled: bool,
    /// When it was added, in milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
}

/// The database of products and devices; a cheap handle on one pool of connections.
#[derive(Debug, Clone)]
pub struct Devices {
    pool: SqlitePool,
}

impl Devices {
    /// Opens the database at `sqlite:<path>` or `sqlite://<path>`, creating its folder, its file and its tables where
    /// they are missing.
    ///
    /// # Errors
    /// [`Error::Url`] for another kind of URL, [`Error::Folder`] or [`Error::Database`] when it cannot be opened,
    /// [`Error::Schema`] when its tables are not ours or newer than this program.
    pub async fn open(url: &str, config: &Config) -> Result<Self, Error> {
        let busy_timeout = Duration::from_millis(config.busy_timeout_ms);
        let scheme = url.split(':').next().unwrap_or_default();
        if scheme != "sqlite" {
            return Err(Error::Url(scheme.to_owned()));
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|source| Error::Database("open", source))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(busy_timeout);
        if let Some(folder) = options.get_filename().parent() {
            fs::create_dir_all(folder).map_err(|source| Error::Folder(folder.into(), source))?;
        }
        let pool = SqlitePoolOptions::new()
            .max_connections(config.connections_max)
            .acquire_timeout(busy_timeout)
            // A connection to a local file does not age, and the last one to leave would take a database in memory
            // with it.
            .idle_timeout(None)
            .max_lifetime(None);
        let pool = connect(pool, options, busy_timeout)
            .await
            .map_err(|source| Error::Database("open", source))?;
        migrate(&pool).await.map_err(Error::Schema)?;
        Ok(Self { pool })
    }

    /// One device.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer; an unknown device is `None`.
    pub async fn find(&self, device: &DeviceId) -> Result<Option<Record>, Error> {
        let row: Option<(String, bool, i64)> = sqlx::query_as(FIND)
            .bind(device.product())
            .bind(device.name())
            .fetch_optional(&self.pool)
            .await
            .map_err(|source| Error::Database("find a device", source))?;
        Ok(row.map(|(secret, enabled, created_at_ms)| Record {
            device: device.clone(),
            secret: Secret::from_stored(secret),
            enabled,
            created_at_ms,
        }))
    }

    /// The devices of one product, or all, in the order of product id and name.
    ///
    /// An item is [`Error::Database`] when there is no answer, [`Error::Name`] for a row that no device can have.
    pub fn list<'a>(
        &'a self,
        product: Option<&'a str>,
    ) -> impl Stream<Item = Result<Record, Error>> + 'a {
        sqlx::query_as(LIST)
            .bind(product)
            .fetch(&self.pool)
            .map(|row| {
                let (product, name, secret, enabled, created_at_ms): (String, String, _, _, _) =
                    row.map_err(|source| Error::Database("list devices", source))?;
                Ok(Record {
                    device: DeviceId::new(&product, &name)?,
                    secret: Secret::from_stored(secret),
                    enabled,
                    created_at_ms,
                })
            })
    }

    /// Adds enabled devices in one transaction, and their product if it is new.
    ///
    /// Each gets this secret, or without one a random secret of its own.
    ///
    /// # Errors
    /// [`Error::Name`] for a bad name, [`Error::Exists`] with the first device that is there already,
    /// [`Error::Random`] or [`Error::Database`]. Nothing is stored then.
    pub async fn add(
        &self,
        product: &str,
        names: &[String],
        secret: Option<&Secret>,
    ) -> Result<Vec<Record>, Error> {
        let created_at_ms = i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX);
        let records = names
            .iter()
            .map(|name| {
                Ok(Record {
                    device: DeviceId::new(product, name)?,
                    secret: secret.cloned().map_or_else(random_secret, Ok)?,
                    enabled: true,
                    created_at_ms,
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let failed = |source| Error::Database("add devices", source);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        sqlx::query(ADD_PRODUCT)
            .bind(product)
            .bind(created_at_ms)
            .bind(product)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        for record in &records {
            insert(&mut transaction, record).await?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(records)
    }
}

#[cfg(test)]
impl Devices {
    /// Takes a connection out of the pool: with a pool of one, a database that does not answer.
    pub(super) async fn hold(&self) -> sqlx::pool::PoolConnection<Sqlite> {
        self.pool.acquire().await.unwrap()
    }
}

/// Opens the first connection.
///
/// Two programs that open a new file at once are in each other's way when they switch it to WAL: SQLite refuses one
/// without its usual waiting, so the waiting is here.
async fn connect(
    pool: SqlitePoolOptions,
    options: SqliteConnectOptions,
    busy_timeout: Duration,
) -> Result<SqlitePool, sqlx::Error> {
    let begun = Instant::now();
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some(SQLITE_BUSY)
                    && begun.elapsed() < busy_timeout =>
            {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// Brings the tables up to date in one transaction that keeps other programs out.
async fn migrate(pool: &SqlitePool) -> Result<(), MigrateError> {
    let mut migrator = sqlx::migrate!("src/auth/migrations");
    // Other modules keep tables with migrations of their own in the same database.
    migrator.dangerous_set_table_name("auth_migrations");
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    migrator.run(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

async fn insert(
    transaction: &mut Transaction<'static, Sqlite>,
    record: &Record,
) -> Result<(), Error> {
    let inserted = sqlx::query(ADD_DEVICE)
        .bind(record.device.product())
        .bind(record.device.name())
        .bind(record.secret.text())
        .bind(record.enabled)
        .bind(record.created_at_ms)
        .execute(&mut **transaction)
        .await;
    match inserted {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            Err(Error::Exists(record.device.clone()))
        }
        Err(source) => Err(Error::Database("add devices", source)),
    }
}

/// A secret from the operating system's random numbers.
fn random_secret() -> Result<Secret, Error> {
    let mut key = [0; SECRET_BYTES];
    getrandom::fill(&mut key).map_err(Error::Random)?;
    Ok(Secret::from_key(&key))
}

/// Why the database of devices did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a database that is known here.
    #[error("database URL: expected sqlite://<path>, found the scheme {0:?}")]
    Url(String),
    /// The folder of the database file.
    #[error("database folder {0:?} cannot be made")]
    Folder(PathBuf, #[source] std::io::Error),
    /// The tables.
    #[error("database: its tables cannot be brought up to date")]
    Schema(#[source] MigrateError),
    /// No answer, with what was asked.
    #[error("database: cannot {0}")]
    Database(&'static str, #[source] sqlx::Error),
    /// No answer in time.
    #[error("database: no answer within {0:?}")]
    Timeout(Duration),
    /// The device is there already.
    #[error("device {0} exists already")]
    Exists(DeviceId),
    /// A product id or device name that no device can have.
    #[error(transparent)]
    Name(#[from] device::Error),
    /// The operating system gave no random bytes.
    #[error("no random bytes for a secret")]
    Random(#[source] getrandom::Error),
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
