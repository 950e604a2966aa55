//! Devices added, changed and removed.

use std::collections::HashSet;

use sqlx::QueryBuilder;

use super::error::Error;
use super::notice::{Notice, What};
use super::page::Filter;
use super::product;
use super::record::{Record, State};
use super::sealing::{self, Sealed};
use super::statement::{STATEMENT_MAX, Value, run_in};
use super::tables::Catalogue;
use crate::auth::credentials::Secret;
use crate::database::{Fate, Transaction, fate, on, within};
use crate::device::DeviceId;
use crate::telemetry;

/// How many random bytes a new device's secret has.
const SECRET_BYTES: usize = 20;
/// Devices in one statement; a database takes some ten thousand values in one.
const BATCH: usize = 1_000;

const ADD_DEVICES: &str =
    "INSERT INTO device (product_id, name, secret, key_id, state, created_at_ms) ";
const SET_STATE: &str = "UPDATE device SET state = ? WHERE product_id = ? AND name = ?";
const SET_SECRET: &str =
    "UPDATE device SET secret = ?, key_id = ? WHERE product_id = ? AND name = ?";
/// Unless it was changed meanwhile.
const RESEAL: &str =
    "UPDATE device SET secret = ?, key_id = ? WHERE product_id = ? AND name = ? AND secret = ?";
const REMOVE: &str = "DELETE FROM device WHERE product_id = ? AND name = ?";

/// What became of the secrets of some devices.
pub struct Resealed {
    /// The last of the devices that were looked at; none behind the last of all.
    pub last: Option<DeviceId>,
    /// Secrets that are sealed with the current key now and were not before.
    pub resealed: usize,
    /// Secrets that do not open; they are as they were.
    pub failed: Vec<sealing::Error>,
}

impl Catalogue {
    /// Adds enabled devices in one transaction, and their product if it is new.
    ///
    /// Each gets this secret, or without one a random secret of its own.
    ///
    /// # Errors
    /// [`Error::Name`] for a bad name, [`Error::Exists`] with the first device that is there already,
    /// [`Error::Sealing`] or [`Error::Database`]. Nothing is stored then.
    pub async fn add(
        &self,
        product: &str,
        names: &[String],
        secret: Option<&Secret>,
    ) -> Result<Vec<Record>, Error> {
        let created_at_ms = now_ms();
        let records = names
            .iter()
            .map(|name| {
                Ok(Record {
                    device: DeviceId::new(product, name)?,
                    secret: secret.cloned().map_or_else(random_secret, Ok)?,
                    state: State::Enabled,
                    created_at_ms,
                    is_activated: false,
                    sub_devices: [].into(),
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let sealed = records.iter();
        let sealed = sealed.map(|record| self.keys.seal(&record.device, &record.secret));
        let sealed = sealed.collect::<Result<Vec<_>, _>>()?;
        match self.insert(product, &records, &sealed).await {
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
        records: &[Record],
        sealed: &[Sealed],
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        let kind = self.pool.kind();
        product::ensure(&mut transaction, kind, product).await?;
        let rows: Vec<_> = records.iter().zip(sealed).collect();
        for batch in rows.chunks(BATCH) {
            insert(&mut transaction, batch).await?;
        }
        within(STATEMENT_MAX, transaction.commit()).await
    }

    /// The first device that is in the database, or twice in the batch; `error` if it has gone meanwhile.
    async fn first_there(&self, records: &[Record], error: sqlx::Error) -> Result<Error, Error> {
        let mut before = HashSet::new();
        for Record { device, .. } in records {
            if !before.insert(device) || self.is_there(device).await? {
                return Ok(Error::Exists(device.clone()));
            }
        }
        Ok(Error::Database("add devices", error))
    }

    /// Lets a device in, or not. Gives what nodes are to be told, who end its connection.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not there, [`Error::Database`] when there is no answer.
    pub async fn set_state(&self, device: &DeviceId, state: State) -> Result<Notice, Error> {
        let [product, name] = names(device);
        let values = [Value::Number(state.number().into()), product, name];
        let changed = self.run(SET_STATE, &values).await;
        met(device, "change the state of a device", changed)?;
        let gateway = self.gateway(device).await?;
        Ok(Notice::of(device, state.into()).behind(gateway.as_ref()))
    }

    /// Gives a device this secret, or a random one; the one before proves nothing any more. Gives the new one.
    ///
    /// # Errors
    /// As [`set_state`](Self::set_state), and [`Error::Sealing`].
    pub async fn set_secret(
        &self,
        device: &DeviceId,
        secret: Option<Secret>,
    ) -> Result<Secret, Error> {
        let secret = secret.map_or_else(random_secret, Ok)?;
        let sealed = self.keys.seal(device, &secret)?;
        let [product, name] = names(device);
        let sealed = [Value::Text(&sealed.text), Value::Text(&sealed.key_id)];
        let values = [sealed[0], sealed[1], product, name];
        let changed = self.run(SET_SECRET, &values).await;
        met(device, "change the secret of a device", changed)?;
        Ok(secret)
    }

    /// Removes a device with its certificates and bindings. Gives what nodes are to be told.
    ///
    /// # Errors
    /// As [`set_state`](Self::set_state).
    pub async fn remove(&self, device: &DeviceId) -> Result<Notice, Error> {
        let gateway = self.gateway(device).await?;
        let removed = self.run(REMOVE, &names(device)).await;
        met(device, "remove a device", removed)?;
        Ok(Notice::of(device, What::Removed).behind(gateway.as_ref()))
    }

    /// Seals the secrets of at most `limit` devices behind `after` with the current key, where they are not, in one transaction.
    ///
    /// # Errors
    /// [`Error::Database`] or [`Error::Sealing`]: nothing is changed then.
    pub async fn reseal(&self, after: Option<&DeviceId>, limit: usize) -> Result<Resealed, Error> {
        let page = self.page(&Filter::default(), after, limit).await?;
        let mut done = Resealed {
            last: page.last().map(|listed| listed.device.clone()),
            resealed: 0,
            failed: Vec::new(),
        };
        let failed = |source| Error::Database("reseal secrets", source);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        for listed in page {
            if listed.sealed.key_id == self.keys.current() {
                continue;
            }
            let secret = match self.keys.open(&listed.device, listed.sealed.clone()) {
                Ok(secret) => secret,
                Err(error) => {
                    done.failed.push(error);
                    continue;
                }
            };
            let Sealed { text, key_id } = self.keys.seal(&listed.device, &secret)?;
            let [product, name] = names(&listed.device);
            let sealed = [Value::Text(&text), Value::Text(&key_id)];
            let before = Value::Text(&listed.sealed.text);
            let values = [sealed[0], sealed[1], product, name, before];
            let kind = self.pool.kind();
            let changed = run_in(&mut transaction, kind, RESEAL, &values).await;
            done.resealed += usize::try_from(changed.map_err(failed)?).unwrap_or(0);
        }
        let committed = within(STATEMENT_MAX, transaction.commit()).await;
        committed.map_err(failed)?;
        Ok(done)
    }
}

/// One statement with all of these rows.
pub(super) async fn insert(
    transaction: &mut Transaction,
    rows: &[(&Record, &Sealed)],
) -> Result<(), sqlx::Error> {
    on!(Transaction, transaction, Sql, connection => {
        let mut add = QueryBuilder::<Sql>::new(ADD_DEVICES);
        add.push_values(rows, |mut row, (record, sealed)| {
            row.push_bind(record.device.product())
                .push_bind(record.device.name())
                .push_bind(&*sealed.text)
                .push_bind(&*sealed.key_id)
                .push_bind(record.state.number())
                .push_bind(record.created_at_ms);
        });
        within(STATEMENT_MAX, add.build().execute(&mut **connection)).await?;
    });
    Ok(())
}

/// The names of a device as values.
pub(super) fn names(device: &DeviceId) -> [Value<'_>; 2] {
    [Value::Text(device.product()), Value::Text(device.name())]
}

/// What it means how many rows a statement met.
pub(super) fn met(
    device: &DeviceId,
    what: &'static str,
    rows: Result<u64, sqlx::Error>,
) -> Result<(), Error> {
    match rows {
        Ok(0) => Err(Error::Unknown(format!("device {device}"))),
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Database(what, source)),
    }
}

/// The time, as rows have it.
pub(super) fn now_ms() -> i64 {
    i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX)
}

/// A secret from the operating system's random numbers.
pub(super) fn random_secret() -> Result<Secret, Error> {
    let mut key = [0; SECRET_BYTES];
    getrandom::fill(&mut key).map_err(sealing::Error::Random)?;
    Ok(Secret::from_key(&key))
}
