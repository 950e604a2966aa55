//! Where devices may connect, and what is spoken there.

use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use super::tls::Files;

/// The plain TCP listener, and what all listeners share (`[mqtt]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port of the plain TCP listener; port 0 takes any free one; `off` is none.
    #[serde(deserialize_with = "address_or_off")]
    pub listen: Option<SocketAddr>,
    /// Connections of all listeners at the same time; lowered at start to what the process may have descriptors for.
    pub connections_max: usize,
    /// Connections that the kernel holds for a listener until they are accepted.
    pub backlog: u16,
    /// How often certificate files are looked at for changes, in milliseconds (G20).
    pub certificate_check_interval_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([0, 0, 0, 0], 1883))),
            connections_max: 100_000,
            backlog: 4_096,
            certificate_check_interval_ms: 10_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        [
            ("connections_max", self.connections_max as u64),
            ("backlog", self.backlog.into()),
            (
                "certificate_check_interval_ms",
                self.certificate_check_interval_ms,
            ),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("{key}: expected more than 0"))
        .collect()
    }
}

/// What carries MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The bare socket.
    #[default]
    Tcp,
    /// TLS 1.2 or 1.3.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// Whether it needs a certificate.
    #[must_use]
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Whether MQTT travels in WebSocket frames.
    #[must_use]
    pub fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// Whether a client needs a certificate, where there are CAs for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// Who has none is refused.
    #[default]
    Required,
    /// Who has none is let in without; one that is not to be believed is refused.
    Optional,
}

/// One more listener (`[[listener]]`): an address or a path, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerConfig {
    /// Address and port; port 0 takes any free one. This or `unix`.
    #[serde(deserialize_with = "some_address")]
    pub listen: Option<SocketAddr>,
    /// Path of a Unix socket. This or `listen`.
    pub unix: Option<PathBuf>,
    /// What carries MQTT.
    pub transport: Transport,
    /// PEM file with the server's certificate and those that link it to its CA, for `tls` and `wss`.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    pub key: Option<PathBuf>,
    /// PEM file with the CAs that sign client certificates.
    pub client_ca: Option<PathBuf>,
    /// PEM file with certificate revocation lists: one of each CA that signed a certificate of a client's chain. Whose chain holds
    /// a revoked certificate is refused, and so is one of whose CAs there is no list.
    pub client_crl: Option<PathBuf>,
    /// Whether a client needs a certificate of `client_ca`.
    pub client_certificate: ClientCertificate,
    /// Every connection must start with a PROXY protocol header (version 1 or 2), which names the peer's address.
    pub proxy_protocol: bool,
    /// Connections of this listener at the same time; without it only `[mqtt] connections_max` counts.
    pub connections_max: Option<usize>,
}

impl ListenerConfig {
    /// A listener for plain TCP.
    #[must_use]
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            listen: Some(address),
            ..Self::default()
        }
    }

    /// What it is called in messages: its address or path, as configured.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.listen, &self.unix) {
            (Some(address), _) => address.to_string(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => "nowhere".to_owned(),
        }
    }

    /// The certificate's files, where the transport has one.
    #[must_use]
    pub fn files(&self) -> Option<Files> {
        let (Some(certificate), Some(key), true) =
            (&self.certificate, &self.key, self.transport.is_secure())
        else {
            return None;
        };
        Some(Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.client_ca.clone(),
            client_crl: self.client_crl.clone(),
            client_certificate: self.client_certificate,
        })
    }

    /// Every fault, as `key: what was expected`; reads the certificate's files.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.listen.is_some() == self.unix.is_some() {
            faults.push("listen: expected an address here or a path as `unix`".to_owned());
        }
        if self.connections_max == Some(0) {
            faults.push("connections_max: expected more than 0".to_owned());
        }
        let secure = self.transport.is_secure();
        for (key, file, needed) in [
            ("certificate", &self.certificate, true),
            ("key", &self.key, true),
            ("client_ca", &self.client_ca, false),
            ("client_crl", &self.client_crl, false),
        ] {
            match (secure, file) {
                (true, None) if needed => faults.push(format!(
                    "{key}: expected a PEM file for transport tls or wss"
                )),
                (false, Some(_)) => {
                    faults.push(format!("{key}: expected only with transport tls or wss"));
                }
                _ => {}
            }
        }
        let is_optional = self.client_certificate == ClientCertificate::Optional;
        for (key, is_set) in [
            ("client_crl", self.client_crl.is_some()),
            ("client_certificate", is_optional),
        ] {
            if is_set && self.client_ca.is_none() {
                faults.push(format!("{key}: expected client_ca beside it"));
            }
        }
        if let Some(Err(found)) = self.files().map(|files| files.load()) {
            faults.extend(found);
        }
        faults
    }
}

/// Reads an address and a port, with an error that says what one looks like.
///
/// # Errors
/// When it is anything else.
pub fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    parse(&String::deserialize(deserializer)?)
}

/// Reads `ADDRESS:PORT` where there need not be one.
///
/// # Errors
/// When it is anything else.
pub fn some_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

fn address_or_off<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "off" => Ok(None),
        text => parse(text).map(Some),
    }
}

fn parse<E: serde::de::Error>(text: &str) -> Result<SocketAddr, E> {
    text.parse().map_err(|error: AddrParseError| {
        let expected = "expected ADDRESS:PORT such as 127.0.0.1:1883";
        E::custom(format!("{expected}, found {text:?}: {error}"))
    })
}
