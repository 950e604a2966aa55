//! Certificates of devices, by the SHA-256 fingerprint of their DER.

use super::columns::Columns;
use super::error::Error;
use super::statement::Value;
use super::tables::Catalogue;
use super::write::{names, now_ms};
use crate::database::{Fate, Pool, fate, on};
use crate::device::DeviceId;

const ADD: &str =
    "INSERT INTO certificate (fingerprint, product_id, name, created_at_ms) VALUES (?, ?, ?, ?)";
const REMOVE: &str =
    "DELETE FROM certificate WHERE fingerprint = ? AND product_id = ? AND name = ?";
const LIST: &str =
    "SELECT fingerprint FROM certificate WHERE product_id = ? AND name = ? ORDER BY fingerprint";

impl Catalogue {
    /// A device may prove itself with the certificate of this fingerprint; it may have several.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the device is not there, [`Error::Conflict`] when the certificate is some device's already,
    /// [`Error::Database`].
    pub async fn add_certificate(
        &self,
        device: &DeviceId,
        fingerprint: &[u8; 32],
    ) -> Result<(), Error> {
        let [product, name] = names(device);
        let (bytes, now) = (Value::Bytes(fingerprint), Value::Number(now_ms()));
        match self.run(ADD, &[bytes, product, name, now]).await {
            Ok(_) => Ok(()),
            Err(error) => Err(match fate(&error) {
                Fate::Duplicate => {
                    Error::Conflict("the certificate is some device's already".to_owned())
                }
                Fate::Refused => Error::Unknown(format!("device {device}")),
                Fate::Unavailable | Fate::Conflict => Error::Database("add a certificate", error),
            }),
        }
    }

    /// The certificate proves nothing any more.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not this device's, [`Error::Database`].
    pub async fn remove_certificate(
        &self,
        device: &DeviceId,
        fingerprint: &[u8; 32],
    ) -> Result<(), Error> {
        let [product, name] = names(device);
        let removed = self
            .run(REMOVE, &[Value::Bytes(fingerprint), product, name])
            .await;
        match removed.map_err(|source| Error::Database("remove a certificate", source))? {
            0 => Err(Error::Unknown(format!(
                "such certificate of device {device}"
            ))),
            _ => Ok(()),
        }
    }

    /// The fingerprints of a device's certificates, in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn certificates(&self, device: &DeviceId) -> Result<Vec<[u8; 32]>, Error> {
        let sql = self.pool.kind().statement(LIST);
        let found = on!(Pool, &self.pool, Sql, pool => {
            let list = sqlx::query::<Sql>(sql).bind(device.product()).bind(device.name());
            let rows = list.fetch_all(pool).await;
            rows.and_then(|rows| rows.iter().map(|row| row.bytes(0)).collect::<Result<Vec<_>, _>>())
        });
        let found = found.map_err(|source| Error::Database("list certificates", source))?;
        let fingerprints = found.into_iter().map(<[u8; 32]>::try_from);
        Ok(fingerprints.filter_map(Result::ok).collect())
    }
}
