//! Products.

use super::columns::Columns;
use super::error::Error;
use super::registration::Registration;
use super::statement::{Value, run_in};
use super::tables::Catalogue;
use super::write::now_ms;
use crate::database::{Fate, Kind, Pool, Transaction, fate, on};
use crate::device;

const ADD: &str = "INSERT INTO product (id, created_at_ms) VALUES (?, ?)";
const ENSURE: &str = "INSERT INTO product (id, created_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING";
const ENSURE_MYSQL: &str =
    "INSERT INTO product (id, created_at_ms) VALUES (?, ?) ON DUPLICATE KEY UPDATE id = id";
const REMOVE: &str = "DELETE FROM product WHERE id = ?";
const LIST: &str = "SELECT product.id, product.created_at_ms, \
     (SELECT COUNT(*) FROM device WHERE device.product_id = product.id), product.registration \
     FROM product WHERE product.id > ? ORDER BY product.id LIMIT ?";

/// A product as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Product {
    /// Its id.
    pub id: String,
    /// When it was added, in milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// How many devices it has.
    pub devices: i64,
    /// Which of them may register themselves. The secret that they prove it with is not listed.
    pub registration: Registration,
}

impl Catalogue {
    /// Adds a product without devices.
    ///
    /// # Errors
    /// [`Error::Name`] for a bad id, [`Error::Conflict`] when it is there, [`Error::Database`] when there is no answer.
    pub async fn add_product(&self, id: &str) -> Result<(), Error> {
        device::check_product(id)?;
        let values = [Value::Text(id), Value::Number(now_ms())];
        match self.run(ADD, &values).await {
            Ok(_) => Ok(()),
            Err(error) if fate(&error) == Fate::Duplicate => {
                Err(Error::Conflict(format!("product {id} exists already")))
            }
            Err(source) => Err(Error::Database("add a product", source)),
        }
    }

    /// Removes a product that has no devices.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not there, [`Error::Conflict`] when it has devices, [`Error::Database`].
    pub async fn remove_product(&self, id: &str) -> Result<(), Error> {
        match self.run(REMOVE, &[Value::Text(id)]).await {
            Ok(0) => Err(Error::Unknown(format!("product {id}"))),
            Ok(_) => Ok(()),
            Err(error) if fate(&error) == Fate::Refused => {
                Err(Error::Conflict(format!("product {id} has devices")))
            }
            Err(source) => Err(Error::Database("remove a product", source)),
        }
    }

    /// At most `limit` products behind `after`, in the order of the bytes of their ids.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn products(&self, after: &str, limit: usize) -> Result<Vec<Product>, Error> {
        let sql = self.pool.kind().statement(LIST);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let products = on!(Pool, &self.pool, Sql, pool => {
            let rows = sqlx::query::<Sql>(sql).bind(after).bind(limit).fetch_all(pool).await;
            rows.and_then(|rows| rows.iter().map(product).collect())
        });
        products.map_err(|source| Error::Database("list products", source))
    }
}

fn product(row: &impl Columns) -> Result<Product, sqlx::Error> {
    Ok(Product {
        id: row.text(0)?,
        created_at_ms: row.number(1)?,
        devices: row.number(2)?,
        registration: Registration::of(row.number(3)?),
    })
}

/// Adds a product if it is new.
pub(super) async fn ensure(
    transaction: &mut Transaction,
    kind: Kind,
    id: &str,
) -> Result<(), sqlx::Error> {
    let sql = match kind {
        Kind::MySql => ENSURE_MYSQL,
        Kind::Sqlite | Kind::Postgres => ENSURE,
    };
    let values = [Value::Text(id), Value::Number(now_ms())];
    run_in(transaction, kind, sql, &values).await.map(drop)
}
