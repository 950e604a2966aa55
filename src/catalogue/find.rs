//! What logins ask.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::columns::Columns;
use super::error::Error;
use super::record::{Record, State};
use super::sealing::Sealed;
use super::tables::Catalogue;
use crate::database::{Pool, on};
use crate::device::DeviceId;

/// Devices that are looked up in one statement.
pub const FIND_MAX: usize = 256;

/// One row for each enabled sub-device, and one without any.
const FIND: &str = "SELECT device.product_id, device.name, device.secret, device.key_id, device.state, device.created_at_ms, \
     sub.product_id, sub.name, device.activated_at_ms FROM device LEFT JOIN (binding JOIN device AS sub \
     ON sub.product_id = binding.product_id AND sub.name = binding.name AND sub.state = 1) \
     ON binding.gateway_product_id = device.product_id AND binding.gateway_name = device.name WHERE ";
const ORDER: &str = " ORDER BY sub.product_id, sub.name";
const BY_FINGERPRINT: &str = "SELECT product_id, name FROM certificate WHERE fingerprint = ?";

/// What [`FIND`] gives about one device.
struct Found {
    sealed: Sealed,
    state: State,
    created_at_ms: i64,
    is_activated: bool,
    sub_devices: Vec<(String, String)>,
}

impl Catalogue {
    /// One device. How long it may take is up to the caller.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer, [`Error::Sealing`] when its secret does not open; an unknown device is `None`.
    pub async fn find(&self, device: &DeviceId) -> Result<Option<Record>, Error> {
        self.find_all(&[device]).await?.remove(device).transpose()
    }

    /// Those of at most [`FIND_MAX`] devices that are there, in one statement. How long it may take is up to the caller.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer. [`Error::Sealing`] and [`Error::Name`] are one device's alone.
    pub async fn find_all(
        &self,
        devices: &[&DeviceId],
    ) -> Result<HashMap<DeviceId, Result<Record, Error>>, Error> {
        // Few lengths, so that a connection keeps few statements: the last device is asked for again.
        let missing = devices.len().next_power_of_two() - devices.len();
        let again = devices.last().into_iter().cycle().take(missing);
        let rows = on!(Pool, &self.pool, Sql, pool => {
            let mut find = QueryBuilder::<Sql>::new(FIND);
            for (index, device) in devices.iter().chain(again).enumerate() {
                find.push(if index == 0 { "(device.product_id = " } else { " OR (device.product_id = " });
                find.push_bind(device.product()).push(" AND device.name = ");
                find.push_bind(device.name()).push(")");
            }
            let rows = find.push(ORDER).build().fetch_all(pool).await;
            rows.and_then(|rows| collect(&rows))
        });
        let mut rows = rows.map_err(|source| Error::Database("find devices", source))?;
        let found = devices.iter().filter_map(|device| {
            let names = (device.product().to_owned(), device.name().to_owned());
            Some(((*device).clone(), self.record(device, rows.remove(&names)?)))
        });
        Ok(found.collect())
    }

    fn record(&self, device: &DeviceId, found: Found) -> Result<Record, Error> {
        let sub_devices = found.sub_devices.iter();
        let sub_devices = sub_devices.map(|(product, name)| DeviceId::new(product, name));
        Ok(Record {
            device: device.clone(),
            secret: self.keys.open(device, found.sealed)?,
            state: found.state,
            created_at_ms: found.created_at_ms,
            is_activated: found.is_activated,
            sub_devices: sub_devices.collect::<Result<_, _>>()?,
        })
    }

    /// The device of the certificate with this SHA-256 fingerprint of its DER.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer; an unknown certificate is `None`.
    pub async fn by_fingerprint(&self, fingerprint: &[u8; 32]) -> Result<Option<DeviceId>, Error> {
        let sql = self.pool.kind().statement(BY_FINGERPRINT);
        let names = on!(Pool, &self.pool, Sql, pool => {
            let find = sqlx::query::<Sql>(sql).bind(fingerprint.as_slice());
            let row = find.fetch_optional(pool).await;
            row.and_then(|row| row.map(|row| Ok((row.text(0)?, row.text(1)?))).transpose())
        });
        match names.map_err(|source| Error::Database("find a certificate", source))? {
            Some((product, name)) => Ok(Some(DeviceId::new(&product, &name)?)),
            None => Ok(None),
        }
    }
}

/// The rows by product id and name of their devices.
fn collect(rows: &[impl Columns]) -> Result<HashMap<(String, String), Found>, sqlx::Error> {
    let mut devices = HashMap::<_, Found>::new();
    for row in rows {
        let sub_device = row.text_or_null(6)?.zip(row.text_or_null(7)?);
        let found = Found {
            sealed: Sealed {
                text: row.text(2)?,
                key_id: row.text(3)?,
            },
            state: State::of(row.number(4)?),
            created_at_ms: row.number(5)?,
            is_activated: row.number_or_null(8)?.is_some(),
            sub_devices: Vec::new(),
        };
        let device = devices.entry((row.text(0)?, row.text(1)?)).or_insert(found);
        device.sub_devices.extend(sub_device);
    }
    Ok(devices)
}
