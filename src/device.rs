//! Who a device is: the identity that an authenticated login gave it, and what a topic says it is about.
//!
//! An identity never comes from a topic (SUBJECTS §1). Both names are opaque here; only
//! `mapping::subject` writes them into subjects.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::access::Access;

/// The longest product id or device name in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 128;

/// The product id of all clients of the open profile, which know no products.
const OPEN_PRODUCT: &str = "open";

/// What a client identifier may hold and one topic level cannot, and the escape itself, which comes first.
const ESCAPES: [(&str, &str); 4] = [("%", "%25"), ("/", "%2F"), ("+", "%2B"), ("#", "%23")];

/// A product id and a device name: both non-empty, at most [`NAME_BYTES_MAX`] bytes, and legal as one MQTT topic level.
///
/// One reference-counted allocation; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// `<product>/<name>`: a topic level holds no `/`, so the pair is read back without ambiguity.
    text: Arc<str>,
}

impl DeviceId {
    /// Checks both names.
    ///
    /// # Errors
    /// [`Error`] names the rule that is broken.
    pub fn new(product: &str, name: &str) -> Result<Self, Error> {
        check("productID", product)?;
        check("deviceName", name)?;
        Ok(Self {
            text: format!("{product}/{name}").into(),
        })
    }

    /// Who a client of the open profile is: its client identifier alone says it.
    ///
    /// Reversible: [`Self::client_id`] gives the identifier back.
    ///
    /// # Errors
    /// The identifier is empty or, with what must be escaped in it, longer than [`NAME_BYTES_MAX`].
    pub fn open(client_id: &str) -> Result<Self, Error> {
        let name = ESCAPES.iter().fold(
            Cow::Borrowed(client_id),
            |name, (plain, escaped)| match name.contains(plain) {
                true => Cow::Owned(name.replace(plain, escaped)),
                false => name,
            },
        );
        Self::new(OPEN_PRODUCT, &name)
    }

    /// The client identifier that [`Self::open`] made this of.
    #[must_use]
    pub fn client_id(&self) -> Cow<'_, str> {
        let name = self.name();
        match name.contains('%') {
            true => ESCAPES
                .iter()
                .rev()
                .fold(name.to_owned(), |name, (plain, escaped)| {
                    name.replace(escaped, plain)
                })
                .into(),
            false => name.into(),
        }
    }

    /// Its shard, of so many: FNV-1a over both names, the same on every node and in every version.
    #[must_use]
    pub fn shard(&self, shards: u32) -> u32 {
        let bytes = self.text.bytes();
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        u32::try_from(hash % u64::from(shards.max(1))).unwrap_or(0)
    }

    fn split(&self) -> (&str, &str) {
        self.text.split_once('/').expect("new() writes the slash")
    }

    /// The product id.
    #[must_use]
    pub fn product(&self) -> &str {
        self.split().0
    }

    /// The device name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.split().1
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a pair of names is not a device's identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An empty name.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("{0} has {1} bytes, at most {NAME_BYTES_MAX} are allowed")]
    TooLong(&'static str, usize),
    /// A character that a single topic level cannot hold.
    #[error("{0} holds {1:?}, which one topic level cannot hold")]
    Character(&'static str, char),
}

/// Checks a product id.
///
/// # Errors
/// [`Error`] names the rule that is broken.
pub fn check_product(id: &str) -> Result<(), Error> {
    check("productID", id)
}

fn check(field: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Empty(field));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::TooLong(field, name.len()));
    }
    match name.chars().find(|c| matches!(c, '/' | '+' | '#' | '\0')) {
        Some(character) => Err(Error::Character(field, character)),
        None => Ok(()),
    }
}

/// An authenticated device, as the connection, the acl and the mapping see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its identity.
    pub id: DeviceId,
    /// How much of its own topics it may use.
    pub scope: Scope,
    /// Sub-devices that are bound to it and for which it may act (a gateway device); empty for others.
    pub sub_devices: Arc<[DeviceId]>,
    /// The rules that it is held to besides; none for most.
    pub access: Option<Arc<Access>>,
}

/// How much of its own topics a device may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Full,
    /// Only dynamic registration: it has no secret yet.
    Register,
    /// All topics there are, except to publish to those that start with `$`: a client of the open profile.
    Open,
}

/// What a peer's certificate says of its holder; the TLS handshake verified it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The common name of its subject, if there is exactly one.
    pub common_name: Option<Box<str>>,
    /// The DNS names and URIs of its subject's alternative names.
    pub alternative_names: Box<[Box<str>]>,
    /// SHA-256 of its DER form.
    pub fingerprint: [u8; 32],
}

/// One connection of a device, as status events, logs and the connection table know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Who.
    pub device: DeviceId,
    /// The client identifier that it sent.
    pub client_id: Box<str>,
    /// This connection, unique for all time: `<run of the node>.<number>`.
    pub connection_id: Box<str>,
    /// Rises with every connection of the device, so that a late or repeated event is seen to be one.
    pub epoch: u64,
    /// The protocol version, `3.1.1` or `5.0`.
    pub version: &'static str,
    /// Where it came from; none through a Unix socket.
    pub peer: Option<SocketAddr>,
    /// When it was accepted, Unix milliseconds.
    pub connected_at_ms: u64,
}

impl Connection {
    /// The node that accepted it: the run of a gateway.
    #[must_use]
    pub fn node(&self) -> &str {
        let id = &self.connection_id;
        id.split_once('.').map_or(id, |(node, _)| node)
    }
}

/// Which way a topic or subject goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device to cloud.
    Up,
    /// Cloud to device.
    Down,
    /// Whoever is connected to whoever subscribed: the open profile.
    Both,
}

/// What a topic name or filter addresses, read by `mapping`; borrowed from the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The topic name or filter itself.
    pub topic: &'a str,
    /// Which way.
    pub direction: Direction,
    /// The subtree: `thing`, `ota`, …
    pub handle: &'a str,
    /// The type level (`property`, …); empty where the rule has none. In a filter it may be `+`.
    pub kind: &'a str,
    /// The product id level; empty in the open profile, whose topics name nobody.
    pub product: &'a str,
    /// The device name level; empty likewise.
    pub name: &'a str,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_client_identifier_is_given_back(client_id in "[%/+#2FB53a]{1,30}|[^\u{0}]{1,20}") {
            let id = DeviceId::open(&client_id).unwrap();
            prop_assert_eq!(id.client_id(), client_id);
            prop_assert_eq!(id.product(), "open");
        }
    }

    #[test]
    fn what_one_topic_level_cannot_hold_is_escaped() {
        let name = |client_id| DeviceId::open(client_id).map(|id| id.name().to_owned());
        assert_eq!(name("sensor-1"), Ok("sensor-1".to_owned()));
        assert_eq!(name("a/%+#"), Ok("a%2F%25%2B%23".to_owned()));
        assert_eq!(name(""), Err(Error::Empty("deviceName")));
        let long = "/".repeat(NAME_BYTES_MAX / 3 + 1);
        assert_eq!(name(&long), Err(Error::TooLong("deviceName", 129)));
    }

    #[test]
    fn a_device_has_one_shard_for_ever_and_each_shard_has_devices() {
        let of = |name: &str| DeviceId::new("P", name).unwrap().shard(4);
        // Written down: another value would let a new version make what is of a device from two cursors.
        assert_eq!([of("a"), of("b"), of("c"), of("d")], [3, 2, 1, 0]);
    }
}
