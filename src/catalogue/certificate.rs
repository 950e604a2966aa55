//! Certificates of devices, by the SHA-256 fingerprint of their DER.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

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

/// The SHA-256 fingerprint of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of this DER.
    #[must_use]
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    /// Reads 64 hexadecimal digits, as OpenSSL writes them too: with colons between the bytes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected 64 hexadecimal digits";
        let digits: String = text.chars().filter(|digit| *digit != ':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(EXPECTED);
        }
        for (at, byte) in (0..).step_by(2).zip(&mut bytes) {
            let pair = digits.get(at..at + 2).unwrap_or_default();
            *byte = u8::from_str_radix(pair, 16).map_err(|_digits| EXPECTED)?;
        }
        Ok(Self(bytes))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written_and_as_openssl_writes_it() {
        let fingerprint = Fingerprint::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.parse(), Ok(fingerprint));
        let pairs: Vec<_> = fingerprint
            .0
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        assert_eq!(pairs.join(":").parse(), Ok(fingerprint));
        for wrong in [
            "",
            &text[1..],
            &text.replace('b', "g"),
            &text.replace("ba", "é"),
        ] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
