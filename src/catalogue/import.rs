//! Many devices stored as they are in a list of somebody's: new ones are added, those that are there are compared.

use std::collections::{BTreeSet, HashMap};

use sqlx::QueryBuilder;

use super::columns::Columns;
use super::error::Error;
use super::record::{Record, State};
use super::sealing::Sealed;
use super::statement::{STATEMENT_MAX, Value, of_devices, run_in};
use super::tables::Catalogue;
use super::write::{self, names, now_ms, random_secret};
use super::{Notice, What, product};
use crate::auth::credentials::Secret;
use crate::database::{Transaction, on, within};
use crate::device::DeviceId;

const THERE: &str =
    "SELECT product_id, name, secret, key_id, state FROM device WHERE (product_id, name)";
const REPLACE: &str =
    "UPDATE device SET secret = ?, key_id = ?, state = ? WHERE product_id = ? AND name = ?";

/// A device of a list.
pub struct Imported {
    /// Its identity.
    pub device: DeviceId,
    /// Its secret; without one a new device gets a random one, and one that is there keeps its own.
    pub secret: Option<Secret>,
    /// Whether it may log in.
    pub state: State,
}

/// What became of a device of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Added,
    /// It was there like that.
    Unchanged,
    /// It was there with something else, which is replaced.
    Replaced(What),
    /// It was there with something else, and still is.
    Differs,
}

impl Outcome {
    /// What gateways are to be told of a single device.
    #[must_use]
    pub fn notice(self, device: &DeviceId) -> Option<Notice> {
        match self {
            Self::Replaced(what) => Some(Notice::of(device, what)),
            Self::Added | Self::Unchanged | Self::Differs => None,
        }
    }
}

impl Catalogue {
    /// Stores devices, each once in the list, in one transaction; some thousand of them at most. Those that are there with another
    /// secret or state are replaced, or left as they are. Gives what became of each, in their order.
    ///
    /// # Errors
    /// [`Error::Sealing`] or [`Error::Database`], also when somebody else added one of them at the same time: nothing is stored then.
    pub async fn import(&self, devices: &[Imported], replace: bool) -> Result<Vec<Outcome>, Error> {
        let failed = |source| Error::Database("import devices", source);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let there = self
            .there(&mut transaction, devices)
            .await
            .map_err(failed)?;
        let (mut outcomes, mut new) = (Vec::with_capacity(devices.len()), Vec::new());
        for imported in devices {
            let names = (imported.device.product(), imported.device.name());
            let outcome = match there.get(&(names.0.to_owned(), names.1.to_owned())) {
                None => {
                    new.push(imported);
                    Outcome::Added
                }
                Some(row) => match (self.difference(imported, row)?, replace) {
                    (None, _) => Outcome::Unchanged,
                    (Some(_), false) => Outcome::Differs,
                    (Some(what), true) => {
                        let replaced = self.replace(&mut transaction, imported, row).await?;
                        replaced.map_err(failed)?;
                        Outcome::Replaced(what)
                    }
                },
            };
            outcomes.push(outcome);
        }
        let added = self.add_new(&mut transaction, &new).await?;
        added.map_err(failed)?;
        let committed = within(STATEMENT_MAX, transaction.commit()).await;
        committed.map_err(failed)?;
        Ok(outcomes)
    }

    /// Those of the devices that are in the database, by their names.
    async fn there(
        &self,
        transaction: &mut Transaction,
        devices: &[Imported],
    ) -> Result<HashMap<(String, String), Row>, sqlx::Error> {
        if devices.is_empty() {
            return Ok(HashMap::new());
        }
        let kind = self.pool.kind();
        on!(Transaction, transaction, Sql, connection => {
            let mut query = QueryBuilder::<Sql>::new(THERE);
            of_devices!(query, kind, devices.iter().map(|imported| &imported.device));
            let all = query.build().fetch_all(&mut **connection);
            within(STATEMENT_MAX, all).await?.iter().map(row).collect()
        })
    }

    /// What a list would change of a device that is there.
    fn difference(&self, imported: &Imported, row: &Row) -> Result<Option<What>, Error> {
        if let Some(secret) = &imported.secret {
            let stored = self.keys.open(&imported.device, row.sealed.clone())?;
            if stored.text() != secret.text() {
                return Ok(Some(What::Secret));
            }
        }
        Ok((imported.state != row.state).then(|| imported.state.into()))
    }

    async fn replace(
        &self,
        transaction: &mut Transaction,
        imported: &Imported,
        row: &Row,
    ) -> Result<Result<(), sqlx::Error>, Error> {
        let sealed = match &imported.secret {
            Some(secret) => self.keys.seal(&imported.device, secret)?,
            None => row.sealed.clone(),
        };
        let [product, name] = names(&imported.device);
        let sealed = [Value::Text(&sealed.text), Value::Text(&sealed.key_id)];
        let state = Value::Number(imported.state.number().into());
        let values = [sealed[0], sealed[1], state, product, name];
        let replaced = run_in(transaction, self.pool.kind(), REPLACE, &values).await;
        Ok(replaced.map(drop))
    }

    async fn add_new(
        &self,
        transaction: &mut Transaction,
        new: &[&Imported],
    ) -> Result<Result<(), sqlx::Error>, Error> {
        let (mut records, mut sealed) = (Vec::new(), Vec::new());
        let created_at_ms = now_ms();
        for imported in new {
            let secret = imported.secret.clone().map_or_else(random_secret, Ok)?;
            sealed.push(self.keys.seal(&imported.device, &secret)?);
            records.push(Record {
                device: imported.device.clone(),
                secret,
                state: imported.state,
                created_at_ms,
                is_activated: false,
                sub_devices: [].into(),
            });
        }
        let products: BTreeSet<_> = records
            .iter()
            .map(|record| record.device.product())
            .collect();
        let rows: Vec<_> = records.iter().zip(&sealed).collect();
        let store = async {
            for product in products {
                product::ensure(transaction, self.pool.kind(), product).await?;
            }
            match rows.is_empty() {
                true => Ok(()),
                false => write::insert(transaction, &rows).await,
            }
        };
        Ok(store.await)
    }
}

/// What [`THERE`] gives of a device.
struct Row {
    sealed: Sealed,
    state: State,
}

fn row(row: &impl Columns) -> Result<((String, String), Row), sqlx::Error> {
    let sealed = Sealed {
        text: row.text(2)?,
        key_id: row.text(3)?,
    };
    let state = State::of(row.number(4)?);
    Ok(((row.text(0)?, row.text(1)?), Row { sealed, state }))
}
