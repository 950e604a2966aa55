//! A gateway of `jetway dev` with a chain of a test's own, and clients that say what they were told.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::support::pki::Pair;
use crate::support::{Backend, DevOptions, Gateway, Protocol, python, succeed};

/// A gateway with this chain.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
}

/// Whom a client says that it is, and with what.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) username: &'a str,
    pub(crate) password: &'a str,
    /// Whose server certificates it believes; over TLS then.
    pub(crate) ca: Option<&'a Pair>,
    /// Its own certificate.
    pub(crate) certificate: Option<&'a Pair>,
}

impl Site {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let gateway = Gateway::dev(DevOptions {
            environment: settings.iter().map(owned).collect(),
            ..DevOptions::default()
        })
        .await;
        Self { gateway }
    }

    /// The address of a further listener by its place in the configuration.
    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.gateway.ready.listeners[number].listen.unwrap()
    }

    pub(crate) async fn backend(&self) -> Backend {
        Backend::connect(&self.gateway.ready.nats).await
    }

    /// How many messages are stored of the device `demo`/`name`.
    pub(crate) async fn stored(&self, name: &str) -> usize {
        let subject = format!("device.up.mqtt.thing.demo.{name}");
        let backend = self.backend().await;
        backend.messages("DEVICE_UP", &subject).await.len()
    }
}

impl Client<'_> {
    /// What paho for Python was told: the code of CONNACK, or 256 when the connection ended before it. A client that is let in
    /// publishes a report.
    pub(crate) fn log_in(&self, protocol: Protocol, address: SocketAddr) -> u16 {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/identity/login.py");
        let version = match protocol {
            Protocol::V311 => "3.1.1",
            Protocol::V5 => "5",
        };
        let mut command = python(script);
        command.args([&address.port().to_string(), version]);
        command.args([self.client_id, self.username, self.password]);
        let file = |path: Option<&Path>| path.map(Path::to_owned).unwrap_or_default();
        command.arg(file(self.ca.map(|ca| ca.certificate.as_path())));
        command.arg(file(self.certificate.map(|own| own.certificate.as_path())));
        command.arg(file(self.certificate.map(|own| own.key.as_path())));
        let printed = succeed(&mut command);
        let told = printed.trim().strip_prefix("connack ");
        told.map_or(256, |code| code.parse().unwrap())
    }

    /// mosquitto_pub, which publishes a report.
    pub(crate) fn mosquitto(&self, address: SocketAddr) -> Command {
        let mut command = Command::new("mosquitto_pub");
        let topic = format!("$thing/up/property/{}", self.client_id.replace('&', "/"));
        let port = address.port().to_string();
        command.args(["-h", "127.0.0.1", "-q", "1", "-p", &port, "-t", &topic]);
        command.args(["-m", "a report", "-i", self.client_id]);
        if !self.username.is_empty() {
            command.args(["-u", self.username, "-P", self.password]);
        }
        if let Some(ca) = self.ca {
            command.arg("--cafile").arg(&ca.certificate);
        }
        if let Some(own) = self.certificate {
            command.arg("--cert").arg(&own.certificate);
            command.arg("--key").arg(&own.key);
        }
        command
    }
}
