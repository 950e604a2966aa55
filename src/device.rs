//! Who a device is: the identity that an authenticated login gave it, and what a topic says it is about.
//!
//! An identity never comes from a topic (SUBJECTS §1). Both names are opaque here; only
//! `mapping::subject` writes them into subjects.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The longest product id or device name in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 128;

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
}

/// How much of its own topics a device may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Full,
    /// Only dynamic registration: it has no secret yet.
    Register,
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

/// Which way a topic or subject goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Device to cloud.
    Up,
    /// Cloud to device.
    Down,
}

/// What a topic name or filter addresses, read by `mapping`; borrowed from the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// Which way.
    pub direction: Direction,
    /// The subtree: `thing`, `ota`, …
    pub handle: &'a str,
    /// The type level (`property`, …); empty where the rule has none. In a filter it may be `+`.
    pub kind: &'a str,
    /// The product id level.
    pub product: &'a str,
    /// The device name level.
    pub name: &'a str,
}
