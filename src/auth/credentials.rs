//! Device credentials: what a device says at login, and whether its secret proves it. Pure.
//!
//! The scheme: client id `<productID>&<deviceName>`, user name `<identity>;<sdkappid>;<connid>;<expiry>`, password
//! `<token>;<method>`, where the token is the lower-case hex of an HMAC over the whole user name. The expiry is not
//! enforced and the other two fields are free text: they only make the user name differ.
//!
//! Invariants: a token is compared in constant time; a secret that decodes to no key at all proves nothing, because
//! anyone can compute an HMAC with the empty key; no error shows a secret or a token.

use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::device::{self, DeviceId, Scope};

/// How many leading bytes of an identity without separators are its product id.
const LEGACY_PRODUCT_BYTES: usize = 11;

/// The three free fields behind the identity in user names that we make: sdkappid, connid, and an expiry in 2100.
const USERNAME_FIELDS: &str = "12010126;JTWAY;4102444800";

/// Standard alphabet with padding; unused bits of the last symbol are not looked at.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Who a client id or the first field of a user name speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The device.
    pub device: DeviceId,
    /// [`Scope::Register`] for `register&<productID>&<deviceName>`.
    pub scope: Scope,
}

impl Identity {
    /// Reads `<productID>&<deviceName>`, `register&<productID>&<deviceName>`, or for any other count of `&` the
    /// legacy form: 11 bytes of product id followed by the device name.
    ///
    /// `place` is where the text stands ("client id", "user name"), for the error.
    ///
    /// # Errors
    /// [`Error::Identity`] for another form, [`Error::Name`] for a name that no device can have.
    pub fn parse(place: &'static str, text: &str) -> Result<Self, Error> {
        let mut parts = text.split('&');
        let (scope, names) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(product), Some(name), None, _) => (Scope::Full, Some((product, name))),
            (Some("register"), Some(product), Some(name), None) => {
                (Scope::Register, Some((product, name)))
            }
            (_, _, Some(_), None) => return Err(Error::Identity(place)),
            _ => (Scope::Full, text.split_at_checked(LEGACY_PRODUCT_BYTES)),
        };
        let (product, name) = names.ok_or(Error::Identity(place))?;
        let device = DeviceId::new(product, name).map_err(|source| Error::Name(place, source))?;
        Ok(Self { device, scope })
    }
}

/// A well-formed login of a device, not yet proved.
pub struct Login<'a> {
    username: &'a str,
    method: Method,
    token: Vec<u8>,
}

impl<'a> Login<'a> {
    /// Reads the user name and password of a CONNECT whose client id named `device`.
    ///
    /// Everything that can be refused without the device's secret is refused here.
    ///
    /// # Errors
    /// [`Error::Username`], [`Error::Identity`] or [`Error::Name`] for the user name, [`Error::Mismatch`] when it
    /// speaks for another device, [`Error::Password`] for the password. A missing field is a malformed one.
    pub fn parse(
        device: &DeviceId,
        username: Option<&'a str>,
        password: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let username = username.ok_or(Error::Username)?;
        let mut fields = username.split(';');
        let identity = fields.next().unwrap_or_default();
        if fields.count() != 3 {
            return Err(Error::Username);
        }
        if Identity::parse("user name", identity)?.device != *device {
            return Err(Error::Mismatch);
        }
        let (method, token) = password.and_then(parse_password).ok_or(Error::Password)?;
        Ok(Self {
            username,
            method,
            token,
        })
    }

    /// The user name.
    #[must_use]
    pub fn username(&self) -> &str {
        self.username
    }

    /// Its fourth field, a time in Unix seconds; none for what is none.
    #[must_use]
    pub fn expiry_s(&self) -> Option<u64> {
        let (_, expiry) = self.username.rsplit_once(';')?;
        expiry.parse().ok()
    }

    /// Whether the token was made with this secret.
    ///
    /// # Errors
    /// [`Error::Token`] if not, [`Error::Secret`] when the secret holds no key.
    pub fn verify(&self, secret: &Secret) -> Result<(), Error> {
        let expected = self.method.sign(&secret.key()?, self.username);
        if bool::from(expected.ct_eq(&self.token)) {
            Ok(())
        } else {
            Err(Error::Token)
        }
    }
}

/// `<token>;<method>`: the method and the token's bytes; `None` for anything else, upper-case hex included.
fn parse_password(password: &[u8]) -> Option<(Method, Vec<u8>)> {
    let (token, method) = std::str::from_utf8(password).ok()?.split_once(';')?;
    let method = Method::named(method)?;
    Some((method, parse_token(method, token)?))
}

/// The bytes of a token of this method.
fn parse_token(method: Method, token: &str) -> Option<Vec<u8>> {
    let (pairs, []) = token.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let token: Vec<u8> = pairs
        .iter()
        .map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?))
        .collect::<Option<_>>()?;
    (token.len() == method.token_bytes()).then_some(token)
}

fn hex_digit(symbol: u8) -> Option<u8> {
    match symbol {
        b'0'..=b'9' => Some(symbol - b'0'),
        b'a'..=b'f' => Some(symbol - b'a' + 10),
        _ => None,
    }
}

/// What a device sends in its CONNECT.
#[derive(Clone, serde::Serialize)]
pub struct Credentials {
    /// The MQTT client id.
    pub client_id: String,
    /// The user name.
    pub username: String,
    /// The password. Whoever holds it can log in as the device.
    pub password: String,
}

impl Credentials {
    /// Whether a device of these names can say who it is.
    ///
    /// # Errors
    /// [`Error::Separator`] when a name holds `&` or `;`.
    pub fn check(device: &DeviceId) -> Result<(), Error> {
        for name in [device.product(), device.name()] {
            if let Some(separator) = name.chars().find(|c| matches!(c, '&' | ';')) {
                return Err(Error::Separator(name.to_owned(), separator));
            }
        }
        Ok(())
    }

    /// Makes the credentials of a device. The same input gives the same credentials.
    ///
    /// # Errors
    /// [`Error::Separator`] as [`check`](Self::check) has it, [`Error::Secret`] when the secret holds no key.
    pub fn generate(device: &DeviceId, secret: &Secret, method: Method) -> Result<Self, Error> {
        Self::check(device)?;
        let key = secret.key()?;
        let client_id = format!("{}&{}", device.product(), device.name());
        let username = format!("{client_id};{USERNAME_FIELDS}");
        let token = method.sign(&key, &username);
        let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            client_id,
            username,
            password: format!("{hex};{}", method.name()),
        })
    }
}

/// How a token is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// HMAC-SHA-256, `hmacsha256`.
    HmacSha256,
    /// HMAC-SHA-1, `hmacsha1`.
    HmacSha1,
}

impl Method {
    /// Its name in a password.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmacsha256",
            Self::HmacSha1 => "hmacsha1",
        }
    }

    /// The method of this name; names are case-sensitive.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::HmacSha256, Self::HmacSha1]
            .into_iter()
            .find(|method| method.name() == name)
    }

    fn token_bytes(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha1 => 20,
        }
    }

    /// The HMAC of the message.
    pub(super) fn sign(self, key: &[u8], message: &str) -> Vec<u8> {
        match self {
            Self::HmacSha256 => mac::<Hmac<Sha256>>(key, message),
            Self::HmacSha1 => mac::<Hmac<Sha1>>(key, message),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = M::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// A device's secret as the operator and the device hold it: base64 text. Has no `Debug`.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The secret of these key bytes.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Self {
        Self(LENIENT.encode(key).into())
    }

    /// Any text, as the database holds it: platforms let operators choose texts that are not strictly base64.
    #[must_use]
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether this token, lower-case hex, was made of a text with this secret; compared in constant time.
    #[must_use]
    pub fn has_signed(&self, method: Method, text: &str, token: &str) -> bool {
        let (Ok(key), Some(token)) = (self.key(), parse_token(method, token)) else {
            return false;
        };
        method.sign(&key, text).ct_eq(&token).into()
    }

    /// The text as a password of SCRAM, which two kinds of text cannot be.
    ///
    /// One holds no key and proves nothing in the other scheme either. The other holds what SASLprep forbids or
    /// changes, which base64 does not.
    ///
    /// # Errors
    /// [`Error::Secret`] for both.
    pub fn password(&self) -> Result<&str, Error> {
        self.key()?;
        match self.0.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            true => Ok(&self.0),
            false => Err(Error::Secret),
        }
    }

    /// The HMAC key: the text decoded up to its first fault, if any, in whole groups of four symbols.
    ///
    /// Devices in the field hold secrets that the platform has always read this way: line ends inside are skipped, a
    /// group cut short or with a foreign symbol ends the key, and so does padding.
    pub(super) fn key(&self) -> Result<Vec<u8>, Error> {
        let symbols: Vec<u8> = self
            .0
            .bytes()
            .filter(|symbol| !matches!(symbol, b'\r' | b'\n'))
            .collect();
        let mut key = Vec::with_capacity(symbols.len() / 4 * 3);
        let (groups, _) = symbols.as_chunks::<4>();
        for group in groups {
            let mut bytes = [0; 3];
            let Ok(length) = LENIENT.decode_slice(group, &mut bytes) else {
                break;
            };
            key.extend(bytes.iter().take(length));
            if length < bytes.len() {
                break;
            }
        }
        if key.is_empty() {
            return Err(Error::Secret);
        }
        Ok(key)
    }
}

/// The strict form for secrets that an operator types: a typing error must not become a shorter key.
impl FromStr for Secret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(key) if !key.is_empty() => Ok(Self(text.into())),
            _ => Err(Error::Secret),
        }
    }
}

/// Why credentials are not a device's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An identity in none of the three forms.
    #[error(
        "{0}: expected <productID>&<deviceName>, or 11 bytes of productID followed by the deviceName"
    )]
    Identity(&'static str),
    /// A product id or device name that no device can have.
    #[error("{0} holds a name that no device can have")]
    Name(&'static str, #[source] device::Error),
    /// No user name, or not four fields.
    #[error("user name: expected <productID>&<deviceName>;<sdkappid>;<connid>;<expiry>")]
    Username,
    /// The user name speaks for another device than the client id.
    #[error("user name and client id name different devices")]
    Mismatch,
    /// No password, or not a token of its method.
    #[error("password: expected <lower-case hex>;hmacsha256 or <lower-case hex>;hmacsha1")]
    Password,
    /// The token was made with another secret or for another user name.
    #[error("password does not fit the device's secret and user name")]
    Token,
    /// No key in a secret.
    #[error(
        "device secret: expected standard base64 with padding, for example 20 bytes as AAECAwQFBgcICQoLDA0ODxAREhM="
    )]
    Secret,
    /// A name that cannot be told from the separators around it.
    #[error("{0:?} holds {1:?}, which separates the fields of a login")]
    Separator(String, char),
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
