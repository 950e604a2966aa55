//! Limits against those who take too much (`[protection]`). 0 is no limit.
//!
//! What depends on a fleet (how many devices a product has, how many come from behind one address, how much they send) is off until
//! somebody says it. What no honest device does is limited from the start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// Limits of one node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Connections from one source address at the same time, handshakes included. An IPv6 source is a /64 network.
    pub source_connections_max: usize,
    /// CONNECTs of one source address in a second.
    pub source_connects_per_s: u32,
    /// CONNECTs of all in a second.
    pub connects_per_s: u32,
    /// What may come at once of a rate, as the time in which it would be earned, in milliseconds.
    pub burst_ms: u64,
    /// Limits of each product that `product` does not name.
    pub products: ProductLimits,
    /// Limits of one product, by its id: all of them, in place of `products`.
    pub product: BTreeMap<String, ProductLimits>,
    /// Logins that fail.
    pub logins: Logins,
    /// Devices that connect all the time.
    pub flapping: Flapping,
    /// Addresses, names and devices of which something is remembered, of each kind.
    pub entries_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source_connections_max: 0,
            source_connects_per_s: 0,
            connects_per_s: 0,
            burst_ms: 1_000,
            products: ProductLimits::default(),
            product: BTreeMap::new(),
            logins: Logins::default(),
            flapping: Flapping::default(),
            entries_max: 100_000,
        }
    }
}

/// What a product and its devices may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct ProductLimits {
    /// Connections at the same time. A device that is connected already may always take its own place.
    pub connections_max: usize,
    /// Messages of all its devices in a second.
    pub messages_per_s: u64,
    /// Bytes of these messages.
    pub bytes_per_s: u64,
    /// Messages of each device in a second.
    pub device_messages_per_s: u64,
    /// Bytes of these messages.
    pub device_bytes_per_s: u64,
}

impl ProductLimits {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How many logins may fail (G19).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Logins {
    /// The time in which failures are counted, in seconds.
    pub window_s: u64,
    /// Failures from one source address. Where all devices come through a balancer, the listener has to learn their addresses by the
    /// PROXY protocol, or this has to be 0.
    pub address_failures_max: u64,
    /// Failures of one user name.
    pub username_failures_max: u64,
    /// Failures of one client identifier.
    pub client_id_failures_max: u64,
    /// How long whoever reached one of these is blocked, in seconds.
    pub block_s: u64,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            window_s: 60,
            address_failures_max: 1_000,
            username_failures_max: 20,
            client_id_failures_max: 20,
            block_s: 60,
        }
    }
}

/// How often one device may connect: two clients that fight over one identity, or one that loses its connection all the time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flapping {
    /// The time in which connects are counted, in seconds.
    pub window_s: u64,
    /// Connects of one device.
    pub connects_max: u64,
    /// How long no further connection of it is let in, in seconds; the one that stands stays.
    pub block_s: u64,
}

impl Default for Flapping {
    fn default() -> Self {
        Self {
            window_s: 60,
            connects_max: 60,
            block_s: 60,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [
            ("burst_ms", self.burst_ms),
            ("entries_max", self.entries_max as u64),
            ("logins.window_s", self.logins.window_s),
            ("logins.block_s", self.logins.block_s),
            ("flapping.window_s", self.flapping.window_s),
            ("flapping.block_s", self.flapping.block_s),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("{key}: expected more than 0"))
        .collect()
    }

    pub(super) fn burst(&self) -> Duration {
        Duration::from_millis(self.burst_ms)
    }

    pub(super) fn product(&self, product: &str) -> &ProductLimits {
        self.product.get(product).unwrap_or(&self.products)
    }
}
