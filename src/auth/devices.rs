//! Products and devices in the SQL database: the only place with SQL about them.
//!
//! It does not cache and does not judge logins. Names are told apart by their bytes, on each kind of database.
//!
//! Invariants: a batch of new devices is stored whole or not at all; an existing device is never overwritten.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::{ColumnIndex, Decode, QueryBuilder, Row};

use crate::auth::credentials::Secret;
use crate::database::{self, Fate, Kind, Pool, Schema, Transaction, fate, on, within};
use crate::device::{self, DeviceId};
use crate::telemetry;

/// How many random bytes a new device's secret has.
const SECRET_BYTES: usize = 20;
/// Devices in one statement; a database takes some ten thousand values in one.
const BATCH: usize = 1_000;
/// Devices that are looked up in one statement.
pub(super) const DEVICES_MAX: usize = 256;
/// The longest that one statement of new devices may take.
const BATCH_MAX: Duration = Duration::from_mins(1);

const FIND: &str =
    "SELECT secret, enabled, created_at_ms FROM device WHERE product_id = ? AND name = ?";
/// One statement for all products and for one: without a product the column is compared with itself.
const LIST: &str = "SELECT secret, enabled, created_at_ms, product_id, name FROM device \
     WHERE product_id = COALESCE(?, product_id) ORDER BY product_id, name";
const FIND_ALL: &str = "SELECT secret, enabled, created_at_ms, product_id, name FROM device WHERE ";
const ADD_PRODUCT: &str =
    "INSERT INTO product (id, created_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING";
const ADD_PRODUCT_MYSQL: &str =
    "INSERT INTO product (id, created_at_ms) VALUES (?, ?) ON DUPLICATE KEY UPDATE id = id";
const ADD_DEVICES: &str = "INSERT INTO device (product_id, name, secret, enabled, created_at_ms) ";

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
    pool: Pool,
}

impl Devices {
    /// Opens the database and makes its tables where they are missing.
    ///
    /// # Errors
    /// [`Error::Open`] when there is none or it does not answer, or its tables are not ours or newer than this program.
    pub async fn open(config: &database::Config) -> Result<Self, Error> {
        let pool = Pool::open(config).await?;
        let schema = Schema {
            applied: "auth_migrations",
            sqlite: sqlx::migrate!("src/auth/migrations/sqlite"),
            postgres: sqlx::migrate!("src/auth/migrations/postgres"),
            mysql: sqlx::migrate!("src/auth/migrations/mysql"),
        };
        pool.migrate(schema).await?;
        Ok(Self { pool })
    }

    /// One device. How long it may take is up to the caller.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer; an unknown device is `None`.
    pub async fn find(&self, device: &DeviceId) -> Result<Option<Record>, Error> {
        let sql = self.pool.kind().statement(FIND);
        let found = on!(Pool, &self.pool, Sql, pool => {
            let find = sqlx::query::<Sql>(sql).bind(device.product()).bind(device.name());
            let row = find.fetch_optional(pool).await;
            row.and_then(|row| row.map(|row| record(&row, device.clone())).transpose())
        });
        found.map_err(|source| Error::Database("find a device", source))
    }

    /// Those of at most [`DEVICES_MAX`] devices that are there, in any order. How long it may take is up to the caller.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer, [`Error::Name`] for a row that no device can have.
    pub(super) async fn find_all(&self, devices: &[&DeviceId]) -> Result<Vec<Record>, Error> {
        if let [device] = devices {
            return Ok(self.find(device).await?.into_iter().collect());
        }
        // Few lengths, so that a connection keeps few statements: the last device is asked for again.
        let missing = devices.len().next_power_of_two() - devices.len();
        let again = devices.last().into_iter().cycle().take(missing);
        let devices: Vec<_> = devices.iter().chain(again).collect();
        on!(Pool, &self.pool, Sql, pool => {
            let mut find = QueryBuilder::<Sql>::new(FIND_ALL);
            for (index, device) in devices.into_iter().enumerate() {
                find.push(if index == 0 { "(product_id = " } else { " OR (product_id = " });
                find.push_bind(device.product()).push(" AND name = ");
                find.push_bind(device.name()).push(")");
            }
            let rows = find.build().fetch_all(pool).await;
            let rows = rows.map_err(|source| Error::Database("find devices", source))?;
            rows.iter().map(listed).collect()
        })
    }

    /// The devices of one product, or all, in the order of the bytes of product id and name.
    ///
    /// An item is [`Error::Database`] when there is no answer, [`Error::Name`] for a row that no device can have.
    pub fn list<'a>(&'a self, product: Option<&'a str>) -> BoxStream<'a, Result<Record, Error>> {
        let sql = self.pool.kind().statement(LIST);
        on!(Pool, &self.pool, Sql, pool => {
            let rows = sqlx::query::<Sql>(sql).bind(product).fetch(pool);
            let rows = rows.map_err(|source| Error::Database("list devices", source));
            rows.map(|row| listed(&row?)).boxed()
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
        match self.insert(product, created_at_ms, &records).await {
            Ok(()) => Ok(records),
            Err(error) if fate(&error) == Fate::Duplicate => {
                Err(self.first_there(&records, error).await?)
            }
            Err(source) => Err(Error::Database("add devices", source)),
        }
    }

    async fn insert(
        &self,
        product: &str,
        created_at_ms: i64,
        records: &[Record],
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        let sql = match self.pool.kind() {
            Kind::MySql => ADD_PRODUCT_MYSQL,
            Kind::Sqlite | Kind::Postgres => ADD_PRODUCT,
        };
        let sql = self.pool.kind().statement(sql);
        on!(Transaction, &mut transaction, Sql, connection => {
            let add = sqlx::query::<Sql>(sql).bind(product).bind(created_at_ms);
            within(BATCH_MAX, add.execute(&mut **connection)).await?;
            for batch in records.chunks(BATCH) {
                let mut add = QueryBuilder::<Sql>::new(ADD_DEVICES);
                add.push_values(batch, |mut row, record| {
                    row.push_bind(record.device.product())
                        .push_bind(record.device.name())
                        .push_bind(record.secret.text())
                        .push_bind(record.enabled)
                        .push_bind(record.created_at_ms);
                });
                within(BATCH_MAX, add.build().execute(&mut **connection)).await?;
            }
        });
        within(BATCH_MAX, transaction.commit()).await
    }

    /// The first device that is in the database, or twice in the batch; `error` if it has gone meanwhile.
    async fn first_there(&self, records: &[Record], error: sqlx::Error) -> Result<Error, Error> {
        let mut before = HashSet::new();
        for Record { device, .. } in records {
            if !before.insert(device) || self.find(device).await?.is_some() {
                return Ok(Error::Exists(device.clone()));
            }
        }
        Ok(Error::Database("add devices", error))
    }
}

#[cfg(test)]
impl Devices {
    /// Takes a connection out of the pool: with a pool of one, a database that does not answer.
    pub(super) async fn hold(&self) -> Transaction {
        self.pool.begin().await.unwrap()
    }
}

/// What [`FIND`] gives, and [`LIST`] first.
fn record<R: Row>(row: &R, device: DeviceId) -> Result<Record, sqlx::Error>
where
    usize: ColumnIndex<R>,
    String: for<'r> Decode<'r, R::Database>,
    bool: for<'r> Decode<'r, R::Database>,
    i64: for<'r> Decode<'r, R::Database>,
{
    Ok(Record {
        device,
        secret: Secret::from_stored(row.try_get_unchecked(0)?),
        enabled: row.try_get_unchecked(1)?,
        created_at_ms: row.try_get_unchecked(2)?,
    })
}

fn listed<R: Row>(row: &R) -> Result<Record, Error>
where
    usize: ColumnIndex<R>,
    String: for<'r> Decode<'r, R::Database>,
    bool: for<'r> Decode<'r, R::Database>,
    i64: for<'r> Decode<'r, R::Database>,
{
    let failed = |source| Error::Database("list devices", source);
    // Unchecked: names are bytes on MySQL, and text all the same.
    let text = |column: usize| row.try_get_unchecked::<String, _>(column).map_err(failed);
    let device = DeviceId::new(&text(3)?, &text(4)?)?;
    record(row, device).map_err(failed)
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
    /// The database, or its tables.
    #[error(transparent)]
    Open(#[from] database::Error),
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
