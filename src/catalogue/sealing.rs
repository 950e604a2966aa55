//! Secrets at rest: sealed with AES-256-GCM under a key that is not in the database (NIST SP 800-38D).
//!
//! A sealed text is base64 of a random nonce of 96 bits, the ciphertext and its tag. It holds for one device only: the device is
//! authenticated with it, so that who writes the database cannot give one device the secret of another. One key may seal 2^32
//! times; a million devices whose secrets change daily for ten years stay below.
//!
//! Invariants: what was altered, or was sealed with a key that is not there, is an error and never another secret.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::auth::credentials::Secret;
use crate::device::DeviceId;

/// The longest text of a secret.
const SECRET_BYTES_MAX: usize = 255;
/// The longest id of a key, as the database has room for it.
const ID_BYTES_MAX: usize = 64;

/// The keys that secrets are sealed with. Cheap to clone; its `Debug` shows their ids.
#[derive(Clone, Default)]
pub struct Keys(Arc<[Key]>);

struct Key {
    id: String,
    aead: LessSafeKey,
}

/// A secret as the database holds it: plain without a key id.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) text: String,
    pub(super) key_id: String,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|key| &key.id))
            .finish()
    }
}

impl Keys {
    /// Reads `ID:BASE64` with commas or white space between them; a line that starts with `#` is a comment.
    ///
    /// # Errors
    /// What is no key, by its place; never its text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
        let words = lines.flat_map(|line| line.split([',', ' ', '\t']));
        let mut keys = Vec::<Key>::new();
        for (place, word) in (1..).zip(words.map(str::trim).filter(|word| !word.is_empty())) {
            let (id, key) = word.split_once(':').ok_or(Error::Form(place))?;
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(is_name) {
                return Err(Error::Form(place));
            }
            let bytes = STANDARD.decode(key).unwrap_or_default();
            let length = |_unspecified| Error::Length(id.to_owned());
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(length)?;
            if keys.iter().any(|key| key.id == id) {
                return Err(Error::Twice(id.to_owned()));
            }
            keys.push(Key {
                id: id.to_owned(),
                aead: LessSafeKey::new(key),
            });
        }
        Ok(Self(keys.into()))
    }

    /// The id of the key that seals; empty if there is none, and secrets stay as they are.
    #[must_use]
    pub fn current(&self) -> &str {
        self.0.first().map_or("", |key| &key.id)
    }

    /// Seals a device's secret.
    pub(super) fn seal(&self, device: &DeviceId, secret: &Secret) -> Result<Sealed, Error> {
        self.seal_for(&Owner::Device(device), secret)
    }

    /// Seals a device's or a product's secret.
    pub(super) fn seal_for(&self, owner: &Owner<'_>, secret: &Secret) -> Result<Sealed, Error> {
        if secret.text().len() > SECRET_BYTES_MAX {
            return Err(Error::TooLong(owner.to_string()));
        }
        let Some(key) = self.0.first() else {
            return Ok(Sealed {
                text: secret.text().to_owned(),
                key_id: String::new(),
            });
        };
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(Error::Random)?;
        let mut sealed = nonce.to_vec();
        let mut text = secret.text().as_bytes().to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.aead
            .seal_in_place_append_tag(nonce, owner.purpose(), &mut text)
            .map_err(|_unspecified| Error::Length(key.id.clone()))?;
        sealed.append(&mut text);
        Ok(Sealed {
            text: STANDARD.encode(sealed),
            key_id: key.id.clone(),
        })
    }

    /// Opens a device's secret.
    pub(super) fn open(&self, device: &DeviceId, sealed: Sealed) -> Result<Secret, Error> {
        self.open_for(&Owner::Device(device), sealed)
    }

    /// Opens a device's or a product's secret.
    pub(super) fn open_for(&self, owner: &Owner<'_>, sealed: Sealed) -> Result<Secret, Error> {
        let Sealed { text, key_id } = sealed;
        if key_id.is_empty() {
            return Ok(Secret::from_stored(text));
        }
        let Some(key) = self.0.iter().find(|key| key.id == key_id) else {
            return Err(Error::Unknown(owner.to_string(), key_id));
        };
        let altered = || Error::Altered(owner.to_string());
        let bytes = STANDARD.decode(text).unwrap_or_default();
        let (nonce, sealed) = bytes.split_first_chunk().ok_or_else(altered)?;
        let (nonce, mut sealed) = (Nonce::assume_unique_for_key(*nonce), sealed.to_vec());
        let opened = key
            .aead
            .open_in_place(nonce, owner.purpose(), &mut sealed)
            .map_err(|_unspecified| altered())?;
        let text = String::from_utf8(opened.to_vec()).map_err(|_text| altered())?;
        Ok(Secret::from_stored(text))
    }
}

/// Whose secret it is.
pub(super) enum Owner<'a> {
    Device(&'a DeviceId),
    /// A product, by its id.
    Product(&'a str),
}

impl Owner<'_> {
    /// What is authenticated with a secret.
    fn purpose(&self) -> Aad<Vec<u8>> {
        let text = match self {
            Self::Device(device) => format!("jetway device secret {device}"),
            Self::Product(product) => format!("jetway product secret {product}"),
        };
        Aad::from(text.into_bytes())
    }
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => write!(f, "device {device}"),
            Self::Product(product) => write!(f, "product {product}"),
        }
    }
}

/// Why a secret cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a key; the text is not shown.
    #[error(
        "key number {0}: expected ID:BASE64, the id of 1 to {ID_BYTES_MAX} letters, digits, '.', '_' or '-'"
    )]
    Form(usize),
    /// Not of the length of a key.
    #[error("key {0:?}: expected 32 bytes in standard base64")]
    Length(String),
    /// Two keys of one id.
    #[error("key {0:?} is there twice")]
    Twice(String),
    /// The file of keys.
    #[error("keys_file {0:?} cannot be read")]
    File(PathBuf, #[source] io::Error),
    /// The operating system gave no random bytes.
    #[error("no random bytes for a secret")]
    Random(#[source] getrandom::Error),
    /// Longer than the database has room for.
    #[error("{0}: expected a secret of at most {SECRET_BYTES_MAX} bytes")]
    TooLong(String),
    /// A key that was there when the secret was sealed.
    #[error("{0}: its secret is sealed with the key {1:?}, which is not among [catalogue] keys")]
    Unknown(String, String),
    /// Not what was sealed.
    #[error(
        "{0}: its secret does not open: it was altered, or sealed with another key of the same id"
    )]
    Altered(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Keys {
        let key = |name: &&str| format!("{name}:{}", STANDARD.encode([name.as_bytes()[0]; 32]));
        Keys::parse(&names.iter().map(key).collect::<Vec<_>>().join(","))
            .ok()
            .unwrap()
    }

    fn id(name: &str) -> DeviceId {
        DeviceId::new("p", name).unwrap()
    }

    #[test]
    fn a_secret_opens_for_its_device_under_its_key_alone() {
        let secret = Secret::from_key(b"a key");
        let sealed = keys(&["a"]).seal(&id("d"), &secret).ok().unwrap();
        assert_eq!(sealed.key_id, "a");
        assert!(!sealed.text.contains(secret.text()));
        let open =
            |keys: &Keys, device: &str, sealed: &Sealed| keys.open(&id(device), sealed.clone());
        let opened = open(&keys(&["bb", "a"]), "d", &sealed).ok().unwrap();
        assert_eq!(opened.text(), secret.text());
        let error = |outcome: Result<Secret, Error>| outcome.err().unwrap();
        assert!(matches!(
            error(open(&keys(&["a"]), "e", &sealed)),
            Error::Altered(_)
        ));
        assert!(matches!(
            error(open(&keys(&["bb"]), "d", &sealed)),
            Error::Unknown(..)
        ));
        let renamed = Sealed {
            key_id: "bb".to_owned(),
            ..sealed.clone()
        };
        assert!(matches!(
            error(open(&keys(&["bb"]), "d", &renamed)),
            Error::Altered(_)
        ));
        for text in ["", "AAAA", "?", &sealed.text[4..]] {
            let altered = Sealed {
                text: text.to_owned(),
                ..sealed.clone()
            };
            assert!(
                matches!(error(open(&keys(&["a"]), "d", &altered)), Error::Altered(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn the_same_secret_is_never_sealed_alike() {
        let (keys, secret) = (keys(&["a"]), Secret::from_key(b"a key"));
        let seal = || keys.seal(&id("d"), &secret).ok().unwrap().text;
        assert_ne!(seal(), seal());
    }

    #[test]
    fn without_keys_a_secret_stays_as_it_is() {
        let sealed = Keys::default().seal(&id("d"), &Secret::from_stored("abc".to_owned()));
        let sealed = sealed.ok().unwrap();
        assert_eq!((&*sealed.text, &*sealed.key_id), ("abc", ""));
        assert_eq!(
            keys(&["a"]).open(&id("d"), sealed).ok().unwrap().text(),
            "abc"
        );
    }

    #[test]
    fn what_is_no_key_is_a_fault_by_its_place() {
        let good = format!("a:{}", STANDARD.encode([1; 32]));
        let parse = |text: &str| Keys::parse(text).err().map(|error| error.to_string());
        assert_eq!(parse(&format!("# old\n{good}\n\n")), None);
        for (text, expected) in [
            ("x", "key number 1: expected ID:BASE64"),
            (&*format!("{good}, :AAAA"), "key number 2"),
            ("a/b:AAAA", "key number 1"),
            ("b:AAAA", "key \"b\": expected 32 bytes"),
            (&*format!("{good} {good}"), "key \"a\" is there twice"),
        ] {
            assert!(parse(text).unwrap().starts_with(expected), "{text}");
        }
    }
}
