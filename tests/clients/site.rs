//! A gateway of `jetway dev` with a listener of each kind.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::pki::{Key, Pair, Pki};
use crate::support::{DevOptions, Gateway};

pub(crate) const VERSIONS: [&str; 2] = ["3.1.1", "5.0"];

/// A gateway and the authority of its certificate.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) ca: Pair,
    _pki: Pki,
}

impl Site {
    /// With the open profile.
    pub(crate) async fn open() -> Self {
        Self::start(&["--profile", "open"]).await
    }

    /// With the device profile.
    pub(crate) async fn devices() -> Self {
        Self::start(&[]).await
    }

    async fn start(arguments: &[&str]) -> Self {
        let pki = Pki::new();
        let ca = pki.authority("ca");
        let certificate = pki.leaf("server", Key::Ecdsa, &ca, 1).settings();
        let address = "listen = '127.0.0.1:0'";
        let listeners = format!(
            "[{{ {address}, transport = 'tls', {certificate} }}, \
              {{ {address}, transport = 'ws' }}, \
              {{ {address}, transport = 'wss', {certificate} }}]"
        );
        let gateway = Gateway::dev(DevOptions {
            arguments: arguments.iter().copied().map(str::to_owned).collect(),
            environment: vec![("JETWAY_LISTENER".to_owned(), listeners)],
            ..DevOptions::default()
        })
        .await;
        Self {
            gateway,
            ca,
            _pki: pki,
        }
    }

    /// Where it listens for this transport: `tcp`, `tls`, `ws` or `wss`.
    pub(crate) fn at(&self, transport: &str) -> SocketAddr {
        let mut further = self.gateway.ready.listeners.iter();
        let listener = further.find(|listener| listener.transport == transport);
        listener.map_or_else(|| self.gateway.mqtt(), |listener| listener.listen.unwrap())
    }

    /// What the programs want to know: the listeners by their transports, whom to trust, and what to speak.
    pub(crate) fn arguments(&self) -> Value {
        let mut listeners = json!({});
        for transport in ["tcp", "tls", "ws", "wss"] {
            listeners[transport] = json!(self.at(transport));
        }
        json!({"listeners": listeners, "ca": self.ca.certificate, "versions": VERSIONS})
    }
}
