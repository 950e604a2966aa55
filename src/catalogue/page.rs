//! Devices listed, a page at a time: in the order of the bytes of product id and name.

use sqlx::QueryBuilder;

use super::certificate::Fingerprint;
use super::columns::Columns;
use super::error::Error;
use super::record::{Listed, Shown, State};
use super::sealing::Sealed;
use super::tables::Catalogue;
use crate::auth::credentials::Secret;
use crate::database::{Kind, Pool, on};
use crate::device::DeviceId;

const LIST: &str = "SELECT device.product_id, device.name, device.secret, device.key_id, device.state, device.created_at_ms, \
     binding.gateway_product_id, binding.gateway_name, device.activated_at_ms FROM device LEFT JOIN binding \
     ON binding.product_id = device.product_id AND binding.name = device.name WHERE ";
const ORDER: &str = " ORDER BY device.product_id, device.name LIMIT ";

/// Which devices; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Of this product.
    pub product: Option<String>,
    /// In this state.
    pub state: Option<State>,
}

impl Catalogue {
    /// At most `limit` devices behind `after`; none behind the last.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer, [`Error::Name`] for a row that no device can have.
    pub async fn page(
        &self,
        filter: &Filter,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<Listed>, Error> {
        let after = after.map_or(("", ""), |after| (after.product(), after.name()));
        let kind = self.pool.kind();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = on!(Pool, &self.pool, Sql, pool => {
            let mut query = QueryBuilder::<Sql>::new(LIST);
            match (&filter.product, kind) {
                // Of another product than `after`: from its first device on.
                (Some(product), _) => {
                    let name = if product == after.0 { after.1 } else { "" };
                    query.push("device.product_id = ").push_bind(product);
                    query.push(" AND device.name > ").push_bind(name);
                }
                // Read as one range of the primary key, which MySQL does only with this form, and the others with the other.
                (None, Kind::MySql) => {
                    query.push("(device.product_id > ").push_bind(after.0);
                    query.push(" OR (device.product_id = ").push_bind(after.0);
                    query.push(" AND device.name > ").push_bind(after.1).push("))");
                }
                (None, Kind::Sqlite | Kind::Postgres) => {
                    query.push("(device.product_id, device.name) > (").push_bind(after.0);
                    query.push(", ").push_bind(after.1).push(")");
                }
            }
            if let Some(state) = filter.state {
                query.push(" AND device.state = ").push_bind(state.number());
            }
            query.push(ORDER).push_bind(limit);
            let rows = query.build().fetch_all(pool).await;
            rows.and_then(|rows| rows.iter().map(columns).collect::<Result<Vec<_>, _>>())
        });
        let rows = rows.map_err(|source| Error::Database("list devices", source))?;
        rows.into_iter().map(Row::listed).collect()
    }

    /// One device with everything about it, except its secret: no key is needed.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not there, [`Error::Database`] when there is no answer.
    pub async fn show(&self, device: &DeviceId) -> Result<Shown, Error> {
        let (product, name) = (device.product(), device.name());
        let row = on!(Pool, &self.pool, Sql, pool => {
            let mut query = QueryBuilder::<Sql>::new(LIST);
            query.push("device.product_id = ").push_bind(product);
            query.push(" AND device.name = ").push_bind(name);
            let row = query.build().fetch_optional(pool).await;
            row.and_then(|row| row.as_ref().map(columns).transpose())
        });
        let row = row.map_err(|source| Error::Database("show a device", source))?;
        let row = row.ok_or_else(|| Error::Unknown(format!("device {device}")))?;
        let certificates = self.certificates(device).await?;
        Ok(Shown {
            listed: row.listed()?,
            sub_devices: self.sub_devices(device).await?,
            certificates: certificates.into_iter().map(Fingerprint).collect(),
        })
    }

    /// The secret of a device that was listed.
    ///
    /// # Errors
    /// [`Error::Sealing`] when it does not open.
    pub fn secret(&self, listed: &Listed) -> Result<Secret, Error> {
        Ok(self.keys.open(&listed.device, listed.sealed.clone())?)
    }
}

/// What [`LIST`] gives.
struct Row {
    product: String,
    name: String,
    sealed: Sealed,
    state: State,
    created_at_ms: i64,
    gateway: Option<(String, String)>,
    activated_at_ms: Option<i64>,
}

fn columns(row: &impl Columns) -> Result<Row, sqlx::Error> {
    Ok(Row {
        product: row.text(0)?,
        name: row.text(1)?,
        sealed: Sealed {
            text: row.text(2)?,
            key_id: row.text(3)?,
        },
        state: State::of(row.number(4)?),
        created_at_ms: row.number(5)?,
        gateway: row.text_or_null(6)?.zip(row.text_or_null(7)?),
        activated_at_ms: row.number_or_null(8)?,
    })
}

impl Row {
    fn listed(self) -> Result<Listed, Error> {
        let gateway = self.gateway;
        let gateway = gateway.map(|(product, name)| DeviceId::new(&product, &name));
        Ok(Listed {
            device: DeviceId::new(&self.product, &self.name)?,
            state: self.state,
            created_at_ms: self.created_at_ms,
            activated_at_ms: self.activated_at_ms,
            gateway: gateway.transpose()?,
            sealed: self.sealed,
        })
    }
}
