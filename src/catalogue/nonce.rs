//! Nonces of devices that are used up: of registrations, and of the signatures that sub-devices are bound with.
//!
//! Invariant: a nonce is used once, on whichever node, until it expires.

use sqlx::QueryBuilder;

use super::error::Error;
use super::statement::{STATEMENT_MAX, Value};
use super::tables::Catalogue;
use super::write::now_ms;
use crate::database::{Fate, Pool, fate, on, within};
use crate::device::DeviceId;

const FORGET: &str = "DELETE FROM registration WHERE expires_at_ms < ?";
const USE: &str = "INSERT INTO registration (product_id, name, nonce, expires_at_ms) ";

/// What a device may do once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce<'n> {
    /// Whose it is.
    pub device: &'n DeviceId,
    /// Told from all others of the device.
    pub number: i64,
    /// Until when it is remembered, in Unix milliseconds.
    pub expires_at_ms: i64,
}

impl Catalogue {
    /// Uses at most 1,000 nonces up; whether none of them was used before, nor is there twice. Else none is used by this.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn use_nonces(&self, nonces: &[Nonce<'_>]) -> Result<bool, Error> {
        let failed = |source| Error::Database("use a nonce", source);
        if nonces.is_empty() {
            return Ok(true);
        }
        let forgotten = self.run(FORGET, &[Value::Number(now_ms())]).await;
        forgotten.map_err(failed)?;
        let used = on!(Pool, &self.pool, Sql, pool => {
            // One statement, so that it is all of them or none.
            let mut insert = QueryBuilder::<Sql>::new(USE);
            insert.push_values(nonces, |mut row, nonce| {
                row.push_bind(nonce.device.product())
                    .push_bind(nonce.device.name())
                    .push_bind(nonce.number)
                    .push_bind(nonce.expires_at_ms);
            });
            within(STATEMENT_MAX, insert.build().execute(pool)).await.map(drop)
        });
        match used {
            Ok(()) => Ok(true),
            Err(error) if fate(&error) == Fate::Duplicate => Ok(false),
            Err(source) => Err(failed(source)),
        }
    }
}
