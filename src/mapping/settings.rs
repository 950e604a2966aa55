//! What an operator sets about the mapping.
//!
//! What the rules are is data (`subjects/rules.toml`); whether the settings fit them is said by `check`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The mapping's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whose rules and streams; the root key `profile` of the configuration says it.
    #[serde(skip)]
    pub profile: Profile,
    /// The gateway's protocol code, one token of the subjects (SUBJECTS §3): `A-Z a-z 0-9 _ -`; no handle's name.
    pub protocol: String,
    /// Which form of an uplink's subject is stored.
    pub tree: Tree,
    /// The handles whose uplinks are also sent live in the handle subtree. Only with [`Tree::Protocol`].
    pub live: BTreeSet<String>,
    /// The message form of a handle's uplinks; [`Form::Native`] for those that are not named.
    pub forms: BTreeMap<String, Form>,
}

impl Default for Settings {
    fn default() -> Self {
        let live = ["thing", "ota", "shadow", "gateway", "config", "log", "ext"];
        Self {
            profile: Profile::Device,
            protocol: "mqtt".to_owned(),
            tree: Tree::Protocol,
            live: live.map(str::to_owned).into(),
            forms: BTreeMap::new(),
        }
    }
}

/// A set of topic rules, streams and logins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Devices of products with the platform's topics and credentials.
    #[default]
    Device,
    /// Any client that gives a client identifier, and any topic.
    Open,
}

/// Which form of an uplink's subject is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tree {
    /// `device.up.<protocol>.<handle>.<productID>.<deviceName>`
    Protocol,
    /// `device.up.<handle>.<productID>.<deviceName>`
    Handle,
}

/// How a message is written (SUBJECTS §4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Form {
    /// The device's payload byte for byte; headers carry the rest.
    #[default]
    Native,
    /// `jetway.v1.DeviceMessage`
    Protobuf,
}

impl TryFrom<String> for Form {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "native" => Ok(Self::Native),
            "protobuf" => Ok(Self::Protobuf),
            "json" | "unitedrhino" => Err(format!(
                "message form `{name}` is not available in this version, expected `native` or `protobuf`"
            )),
            _ => Err(format!(
                "message form `{name}` is unknown, expected `native` or `protobuf`"
            )),
        }
    }
}
