//! Which gateway device may act for which sub-devices. A sub-device has one gateway at a time.

use sqlx::QueryBuilder;

use super::columns::Columns;
use super::error::Error;
use super::statement::{STATEMENT_MAX, of_devices, run_in};
use super::tables::Catalogue;
use super::write::{names, now_ms};
use crate::database::{Fate, Kind, Pool, Transaction, fate, on, within};
use crate::device::DeviceId;

/// The most sub-devices that one gateway device may have: all of them are read with its login.
pub const SUB_DEVICES_MAX: usize = 10_000;

/// Rows in one statement.
const BATCH: usize = 1_000;

const BIND: &str =
    "INSERT INTO binding (product_id, name, gateway_product_id, gateway_name, created_at_ms) ";
const UNBIND: &str = "DELETE FROM binding WHERE product_id = ? AND name = ? AND gateway_product_id = ? AND gateway_name = ?";
const GATEWAYS: &str = "SELECT product_id, name, gateway_product_id, gateway_name FROM binding \
     WHERE (product_id, name)";
const GATEWAY: &str =
    "SELECT gateway_product_id, gateway_name FROM binding WHERE product_id = ? AND name = ?";
const SUB_DEVICES: &str = "SELECT product_id, name FROM binding \
     WHERE gateway_product_id = ? AND gateway_name = ? ORDER BY product_id, name";
const COUNT: &str =
    "SELECT COUNT(*) FROM binding WHERE gateway_product_id = ? AND gateway_name = ?";
const IS_THERE: &str = "SELECT 1 FROM device WHERE product_id = ? AND name = ?";

impl Catalogue {
    /// Binds sub-devices to a gateway device, in one transaction; those that are bound to it stay so.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the first device that is not there; [`Error::Conflict`] when one is the gateway itself or bound to
    /// another one, or the gateway would have more than [`SUB_DEVICES_MAX`]; [`Error::Database`]. Nothing is changed then.
    pub async fn bind(&self, gateway: &DeviceId, sub_devices: &[DeviceId]) -> Result<(), Error> {
        if sub_devices.contains(gateway) {
            let words = format!("device {gateway} cannot be its own sub-device");
            return Err(Error::Conflict(words));
        }
        let failed = |source| Error::Database("bind sub-devices", source);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        for batch in sub_devices.chunks(BATCH) {
            match insert(&mut transaction, self.pool.kind(), gateway, batch).await {
                Ok(()) => {}
                Err(error) if fate(&error) == Fate::Refused => {
                    drop(transaction);
                    return Err(self.first_unknown(gateway, sub_devices, error).await?);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        for batch in sub_devices.chunks(BATCH) {
            let other = self
                .bound_to_another(&mut transaction, gateway, batch)
                .await;
            if let Some([product, name, of, by]) = other.map_err(failed)? {
                let words = format!("device {product}/{name} is bound to {of}/{by}");
                return Err(Error::Conflict(words));
            }
        }
        let count = self.count_in(&mut transaction, gateway).await;
        if usize::try_from(count.map_err(failed)?).unwrap_or(usize::MAX) > SUB_DEVICES_MAX {
            let words = format!("device {gateway}: expected at most {SUB_DEVICES_MAX} sub-devices");
            return Err(Error::Conflict(words));
        }
        within(STATEMENT_MAX, transaction.commit())
            .await
            .map_err(failed)
    }

    /// Takes sub-devices from a gateway device, in one transaction.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the first one that is not bound to it, [`Error::Database`]. Nothing is changed then.
    pub async fn unbind(&self, gateway: &DeviceId, sub_devices: &[DeviceId]) -> Result<(), Error> {
        let failed = |source| Error::Database("unbind sub-devices", source);
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        for device in sub_devices {
            let ([product, name], [of, by]) = (names(device), names(gateway));
            let values = [product, name, of, by];
            let removed = run_in(&mut transaction, self.pool.kind(), UNBIND, &values).await;
            if removed.map_err(failed)? == 0 {
                return Err(Error::Unknown(format!("binding of {device} to {gateway}")));
            }
        }
        within(STATEMENT_MAX, transaction.commit())
            .await
            .map_err(failed)
    }

    /// The sub-devices of a gateway device, in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub(super) async fn sub_devices(&self, gateway: &DeviceId) -> Result<Vec<DeviceId>, Error> {
        let sql = self.pool.kind().statement(SUB_DEVICES);
        let names = on!(Pool, &self.pool, Sql, pool => {
            let list = sqlx::query::<Sql>(sql).bind(gateway.product()).bind(gateway.name());
            let rows = list.fetch_all(pool).await;
            rows.and_then(|rows| {
                let names = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?)));
                names.collect::<Result<Vec<_>, sqlx::Error>>()
            })
        });
        let names = names.map_err(|source| Error::Database("list sub-devices", source))?;
        let devices = names
            .iter()
            .map(|(product, name)| DeviceId::new(product, name));
        Ok(devices.collect::<Result<_, _>>()?)
    }

    /// The gateway device that acts for a device. How long it may take is up to the caller.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn gateway(&self, device: &DeviceId) -> Result<Option<DeviceId>, Error> {
        let sql = self.pool.kind().statement(GATEWAY);
        let names = on!(Pool, &self.pool, Sql, pool => {
            let find = sqlx::query::<Sql>(sql).bind(device.product()).bind(device.name());
            let row = find.fetch_optional(pool).await;
            row.and_then(|row| row.map(|row| Ok((row.text(0)?, row.text(1)?))).transpose())
        });
        match names.map_err(|source| Error::Database("find a gateway device", source))? {
            Some((product, name)) => Ok(Some(DeviceId::new(&product, &name)?)),
            None => Ok(None),
        }
    }

    /// Whether a device is in the database.
    pub(super) async fn is_there(&self, device: &DeviceId) -> Result<bool, Error> {
        let sql = self.pool.kind().statement(IS_THERE);
        let there = on!(Pool, &self.pool, Sql, pool => {
            let find = sqlx::query::<Sql>(sql).bind(device.product()).bind(device.name());
            find.fetch_optional(pool).await.map(|row| row.is_some())
        });
        there.map_err(|source| Error::Database("find a device", source))
    }

    /// The first of some devices that has another gateway, and that.
    async fn bound_to_another(
        &self,
        transaction: &mut Transaction,
        gateway: &DeviceId,
        sub_devices: &[DeviceId],
    ) -> Result<Option<[String; 4]>, sqlx::Error> {
        let kind = self.pool.kind();
        let rows = on!(Transaction, transaction, Sql, connection => {
            let mut query = QueryBuilder::<Sql>::new(GATEWAYS);
            of_devices!(query, kind, sub_devices);
            let rows = query.build().fetch_all(&mut **connection);
            let rows = within(STATEMENT_MAX, rows).await?;
            let columns = rows.iter().map(|row| {
                Ok([row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?])
            });
            columns.collect::<Result<Vec<[String; 4]>, sqlx::Error>>()?
        });
        let is_other = |[_, _, product, name]: &[String; 4]| {
            (product.as_str(), name.as_str()) != (gateway.product(), gateway.name())
        };
        Ok(rows.into_iter().find(is_other))
    }

    async fn count_in(
        &self,
        transaction: &mut Transaction,
        gateway: &DeviceId,
    ) -> Result<i64, sqlx::Error> {
        let sql = self.pool.kind().statement(COUNT);
        on!(Transaction, transaction, Sql, connection => {
            let count = sqlx::query::<Sql>(sql).bind(gateway.product()).bind(gateway.name());
            count.fetch_one(&mut **connection).await?.number(0)
        })
    }

    async fn first_unknown(
        &self,
        gateway: &DeviceId,
        sub_devices: &[DeviceId],
        error: sqlx::Error,
    ) -> Result<Error, Error> {
        for device in std::iter::once(gateway).chain(sub_devices) {
            if !self.is_there(device).await? {
                return Ok(Error::Unknown(format!("device {device}")));
            }
        }
        Ok(Error::Database("bind sub-devices", error))
    }
}

/// Binds those that are bound to nobody; the others stay as they are.
async fn insert(
    transaction: &mut Transaction,
    kind: Kind,
    gateway: &DeviceId,
    sub_devices: &[DeviceId],
) -> Result<(), sqlx::Error> {
    let now = now_ms();
    on!(Transaction, transaction, Sql, connection => {
        let mut bind = QueryBuilder::<Sql>::new(BIND);
        bind.push_values(sub_devices, |mut row, device| {
            row.push_bind(device.product())
                .push_bind(device.name())
                .push_bind(gateway.product())
                .push_bind(gateway.name())
                .push_bind(now);
        });
        bind.push(match kind {
            Kind::MySql => " ON DUPLICATE KEY UPDATE name = binding.name",
            Kind::Sqlite | Kind::Postgres => " ON CONFLICT (product_id, name) DO NOTHING",
        });
        within(STATEMENT_MAX, bind.build().execute(&mut **connection)).await?;
    });
    Ok(())
}
