//! Dynamic registration (profile §2.7): what a device asks, how it proves that it knows its product's secret, and how it is told
//! its own. Pure.
//!
//! Requests are read as devices in the field write them: keys in any case, the last of equal ones, whole numbers only; what cannot be
//! read has no answer. Answers are those of the profile to the byte.
//!
//! Invariants: a signature is compared in constant time; a secret that is too short to be a key encrypts nothing, and the device is
//! told so; no error shows a secret.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Block, BlockEncrypt as _, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::auth::credentials::{Method, Secret};
use crate::catalogue::ProductSecret;
use crate::device::DeviceId;

/// Sixteen ASCII zeros, before the first block.
const IV: [u8; 16] = [b'0'; 16];
const BLOCK_BYTES: usize = 16;

/// Why a registration gives no secret; the number is told to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The signature was not made with the product's secret, or the request is too old or came before.
    #[error("signature, time or nonce")]
    Parameter = 100_006,
    /// The answer cannot be encrypted.
    #[error("no key to encrypt the answer with")]
    Encryption = 100_007,
    /// The catalogue does not answer.
    #[error("the catalogue does not answer")]
    Database = 100_008,
    /// No such product or device.
    #[error("no such product or device")]
    NotFound = 100_009,
    /// The device logged in before.
    #[error("the device is activated already")]
    Activated = 100_019,
    /// Devices of this product do not register.
    #[error("the product is closed for registration")]
    Closed = 100_021,
}

impl Refusal {
    /// The reason's fixed name in the metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Encryption => "encryption",
            Self::Database => "database",
            Self::NotFound => "not_found",
            Self::Activated => "activated",
            Self::Closed => "closed",
        }
    }
}

/// What a device asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Given back with the answer.
    pub message_token: String,
    /// Good once.
    pub nonce: i64,
    /// When the device asks, in Unix seconds.
    pub timestamp_s: i64,
    signature: String,
    encoding: Encoding,
}

/// How the secret is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    Cbc,
    Ecb,
    /// Not encrypted, for devices without a decoder of base64.
    Hex,
}

impl Encoding {
    fn named(name: &str) -> Self {
        match name {
            "aes128ecb" => Self::Ecb,
            name if name.eq_ignore_ascii_case("hex") => Self::Hex,
            _ => Self::Cbc,
        }
    }
}

impl Request {
    /// Reads the payload of a request; none for what has no answer.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let read: Envelope = serde_json::from_slice(payload).ok()?;
        let body = read.payload;
        Some(Self {
            message_token: read.message_token,
            nonce: body.nonce,
            timestamp_s: body.timestamp,
            signature: body.signature,
            encoding: Encoding::named(&body.encoding),
        })
    }

    /// Whether the request was signed with the product's secret: the hex of the HMAC in any case, or its base64.
    #[must_use]
    pub fn is_signed(&self, device: &DeviceId, secret: &ProductSecret) -> bool {
        let (name, product) = (device.name(), device.product());
        let source = format!(
            "deviceName={name}&nonce={}&productID={product}&timestamp={}",
            self.nonce, self.timestamp_s
        );
        let mac = Method::HmacSha1.sign(secret.text().as_bytes(), &source);
        let hex = hex(&mac);
        let given = self.signature.as_bytes();
        let is_hex = hex.as_bytes().ct_eq(&given.to_ascii_lowercase());
        let is_base64 = STANDARD.encode(&hex).as_bytes().ct_eq(given);
        bool::from(is_hex | is_base64)
    }

    /// The answer with the device's secret.
    ///
    /// # Errors
    /// [`Refusal::Encryption`] when one of the secrets is no key.
    pub fn accept(&self, product: &ProductSecret, device: &Secret) -> Result<Vec<u8>, Refusal> {
        let (length, payload) = match self.encoding {
            Encoding::Hex => {
                let key = device.key().map_err(|_no_key| Refusal::Encryption)?;
                let text = format!(r#"{{"encryptionType":2,"psk":"{}"}}"#, hex(&key));
                (text.len(), text)
            }
            Encoding::Cbc | Encoding::Ecb => {
                let plain = Plain {
                    encryption_type: 1,
                    psk: device.text(),
                    client_cert: "",
                    client_key: "",
                };
                let plain = serde_json::to_vec(&plain).map_err(|_json| Refusal::Encryption)?;
                let key = product.text().as_bytes().first_chunk::<BLOCK_BYTES>();
                let key = key.ok_or(Refusal::Encryption)?;
                let encrypted = encrypt(key, &plain, self.encoding == Encoding::Cbc);
                (plain.len(), STANDARD.encode(encrypted))
            }
        };
        Ok(self.answer(200, length, &payload))
    }

    /// The answer without it.
    #[must_use]
    pub fn refuse(&self, refusal: Refusal) -> Vec<u8> {
        self.answer(refusal as u32, 0, "")
    }

    fn answer(&self, code: u32, len: usize, payload: &str) -> Vec<u8> {
        let answer = Answer {
            message_token: &self.message_token,
            code,
            data: Data { len, payload },
        };
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(rename = "msgToken", skip_serializing_if = "str::is_empty")]
    message_token: &'a str,
    code: u32,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    len: usize,
    payload: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plain<'a> {
    encryption_type: u8,
    psk: &'a str,
    client_cert: &'a str,
    client_key: &'a str,
}

/// AES-128 with PKCS #7, each block with the one before it or alone.
fn encrypt(key: &[u8; BLOCK_BYTES], plain: &[u8], is_chained: bool) -> Vec<u8> {
    let cipher = Aes128::new(key.into());
    let padding = BLOCK_BYTES - plain.len() % BLOCK_BYTES;
    let mut bytes = plain.to_vec();
    bytes.resize(plain.len() + padding, u8::try_from(padding).unwrap_or(0));
    let mut before = IV;
    for block in bytes.as_chunks_mut::<BLOCK_BYTES>().0 {
        if is_chained {
            block
                .iter_mut()
                .zip(before)
                .for_each(|(byte, before)| *byte ^= before);
        }
        cipher.encrypt_block(Block::<Aes128>::from_mut_slice(block));
        before = *block;
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a request, what is looked at.
#[derive(Default)]
struct Envelope {
    message_token: String,
    payload: Body,
}

#[derive(Default)]
struct Body {
    nonce: i64,
    timestamp: i64,
    signature: String,
    encoding: String,
}

/// An object that is read key by key, whatever the case of its keys; null is as good as nothing.
trait Fields: Default {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

impl Fields for Envelope {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "msgtoken" => self.message_token = value(map)?,
            "payload" => self.payload = value(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Fields for Body {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "nonce" => self.nonce = value(map)?,
            "timestamp" => self.timestamp = value(map)?,
            "signature" => self.signature = value(map)?,
            "retenc" => self.encoding = value(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

fn value<'de, A: MapAccess<'de>, T: Deserialize<'de> + Default>(
    map: &mut A,
) -> Result<T, A::Error> {
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

struct Reader<T>(std::marker::PhantomData<T>);

impl<'de, T: Fields> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut fields = T::default();
        while let Some(key) = map.next_key::<String>()? {
            fields.take(&key.to_ascii_lowercase(), &mut map)?;
        }
        Ok(fields)
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
