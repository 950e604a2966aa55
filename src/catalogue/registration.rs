//! Which products let devices register themselves, and which devices logged in once.
//!
//! Invariant: a product has registration only with a secret that is long enough.

use std::str::FromStr;

use serde::Serialize;
use sqlx::QueryBuilder;

use super::columns::Columns;
use super::error::Error;
use super::sealing::{Owner, Sealed};
use super::statement::{STATEMENT_MAX, Value, of_devices};
use super::tables::Catalogue;
use super::write::{now_ms, random_secret};
use crate::auth::credentials::Secret;
use crate::database::{Pool, on, within};
use crate::device::DeviceId;

const PRODUCT: &str = "SELECT registration, secret, key_id FROM product WHERE id = ?";
const SET: &str = "UPDATE product SET registration = ?, secret = ?, key_id = ? WHERE id = ?";
const SEALED: &str = "SELECT id, secret, key_id FROM product WHERE secret <> '' AND key_id <> ?";
const RESEAL: &str = "UPDATE product SET secret = ?, key_id = ? WHERE id = ? AND secret = ?";
const ACTIVATE: &str = "UPDATE device SET activated_at_ms = ";
const ACTIVATE_THESE: &str = " WHERE activated_at_ms IS NULL AND (product_id, name)";

/// Which devices of a product may register themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Registration {
    /// None.
    Closed,
    /// Those that are in the catalogue and have not logged in yet.
    Known,
    /// Those, and new ones, which are added.
    New,
}

impl Registration {
    fn number(self) -> i64 {
        match self {
            Self::Closed => 0,
            Self::Known => 1,
            Self::New => 2,
        }
    }

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Known => "known",
            Self::New => "new",
        }
    }

    /// One that is not known lets nobody register.
    pub(super) fn of(number: i64) -> Self {
        match number {
            1 => Self::Known,
            2 => Self::New,
            _ => Self::Closed,
        }
    }
}

impl FromStr for Registration {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = [Self::Closed, Self::Known, Self::New].into_iter();
        let known = all.find(|registration| registration.as_str() == text);
        known.ok_or("expected closed, known or new")
    }
}

/// The text that devices of a product prove a registration with, and that answers are encrypted with. Has no `Debug`.
#[derive(Clone)]
pub struct ProductSecret(Secret);

impl ProductSecret {
    /// The fewest bytes: the first 16 are a key of AES-128.
    pub const BYTES_MIN: usize = 16;

    /// None for a text that is too short to be one.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        (text.len() >= Self::BYTES_MIN).then(|| Self(Secret::from_stored(text)))
    }

    /// A random one.
    ///
    /// # Errors
    /// [`Error::Sealing`] when the operating system gives no random bytes.
    pub fn random() -> Result<Self, Error> {
        random_secret().map(Self)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.text()
    }
}

impl Catalogue {
    /// Which devices of a product may register themselves, and what they prove it with; none for an unknown product.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer, [`Error::Sealing`] when the secret does not open.
    pub async fn registration(
        &self,
        product: &str,
    ) -> Result<Option<(Registration, Option<ProductSecret>)>, Error> {
        let sql = self.pool.kind().statement(PRODUCT);
        let found = on!(Pool, &self.pool, Sql, pool => {
            let row = sqlx::query::<Sql>(sql).bind(product).fetch_optional(pool).await;
            row.and_then(|row| row.map(|row| Ok((row.number(0)?, row.text(1)?, row.text(2)?))).transpose())
        });
        let found = found.map_err(|source| Error::Database("find a product", source))?;
        let Some((number, text, key_id)) = found else {
            return Ok(None);
        };
        let sealed = Sealed { text, key_id };
        let secret = self.keys.open_for(&Owner::Product(product), sealed)?;
        let secret = ProductSecret::new(secret.text().to_owned());
        Ok(Some((Registration::of(number), secret)))
    }

    /// Says which devices of a product may register themselves, and gives the secret that they prove it with: the one that is
    /// given, or else that of before, or a random one. A product that is closed has none.
    ///
    /// # Errors
    /// As [`set_registration`](Self::set_registration); [`Error::Conflict`] also when the secret is too short.
    pub async fn change_registration(
        &self,
        product: &str,
        registration: Registration,
        given: Option<String>,
    ) -> Result<Option<ProductSecret>, Error> {
        let secret = match (registration, given) {
            (Registration::Closed, _) => None,
            (_, Some(text)) => Some(ProductSecret::new(text).ok_or_else(|| {
                let least = ProductSecret::BYTES_MIN;
                Error::Conflict(format!("secret: expected at least {least} bytes"))
            })?),
            (_, None) => match self.registration(product).await? {
                Some((_, Some(secret))) => Some(secret),
                _ => Some(ProductSecret::random()?),
            },
        };
        self.set_registration(product, registration, secret.as_ref())
            .await?;
        Ok(secret)
    }

    /// Says which devices of a product may register themselves. Without a secret it has none any more.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the product is not there, [`Error::Conflict`] when it would be open without a secret,
    /// [`Error::Sealing`], [`Error::Database`].
    pub async fn set_registration(
        &self,
        product: &str,
        registration: Registration,
        secret: Option<&ProductSecret>,
    ) -> Result<(), Error> {
        let sealed = match secret {
            Some(secret) => self.keys.seal_for(&Owner::Product(product), &secret.0)?,
            None if registration == Registration::Closed => Sealed {
                text: String::new(),
                key_id: String::new(),
            },
            None => {
                let words = format!("product {product}: expected a secret to register with");
                return Err(Error::Conflict(words));
            }
        };
        let values = [
            Value::Number(registration.number()),
            Value::Text(&sealed.text),
            Value::Text(&sealed.key_id),
            Value::Text(product),
        ];
        match self.run(SET, &values).await {
            Ok(0) => Err(Error::Unknown(format!("product {product}"))),
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Database("change a product", source)),
        }
    }

    /// Seals the secrets of products with the current key, where they are not; gives how many.
    ///
    /// # Errors
    /// [`Error::Database`] or [`Error::Sealing`]; those before stay resealed.
    pub async fn reseal_products(&self) -> Result<usize, Error> {
        let failed = |source| Error::Database("reseal secrets of products", source);
        let sql = self.pool.kind().statement(SEALED);
        let rows = on!(Pool, &self.pool, Sql, pool => {
            let rows = sqlx::query::<Sql>(sql).bind(self.keys.current()).fetch_all(pool).await;
            rows.and_then(|rows| {
                let texts = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?, row.text(2)?)));
                texts.collect::<Result<Vec<_>, sqlx::Error>>()
            })
        });
        let rows = rows.map_err(failed)?;
        let count = rows.len();
        for (product, text, key_id) in rows {
            let (owner, before) = (Owner::Product(&product), text.clone());
            let secret = self.keys.open_for(&owner, Sealed { text, key_id })?;
            let sealed = self.keys.seal_for(&owner, &secret)?;
            let (text, key_id) = (Value::Text(&sealed.text), Value::Text(&sealed.key_id));
            let values = [text, key_id, Value::Text(&product), Value::Text(&before)];
            self.run(RESEAL, &values).await.map_err(failed)?;
        }
        Ok(count)
    }

    /// These devices logged in: they do not register any more.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn activate(&self, devices: &[DeviceId]) -> Result<(), Error> {
        if devices.is_empty() {
            return Ok(());
        }
        let kind = self.pool.kind();
        let activated = on!(Pool, &self.pool, Sql, pool => {
            let mut activate = QueryBuilder::<Sql>::new(ACTIVATE);
            activate.push_bind(now_ms()).push(ACTIVATE_THESE);
            of_devices!(activate, kind, devices);
            within(STATEMENT_MAX, activate.build().execute(pool)).await.map(drop)
        });
        activated.map_err(|source| Error::Database("activate devices", source))
    }
}
