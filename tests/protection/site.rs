//! A gateway with limits, its nats-server, devices, and a listener that is told who a peer is.

use std::net::SocketAddr;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Backend, Credentials, Gateway, NatsServer, Protocol, RunOptions, Wire, eventually, http,
    jetway, packet,
};

/// Of all devices here.
pub(crate) const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
/// Their product.
pub(crate) const PRODUCT: &str = "P";

/// A gateway and what it needs.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) nats: NatsServer,
    pub(crate) database_url: String,
    _state: TempDir,
}

impl Site {
    /// With devices `d0`, `d1`, … and these keys of `[protection]` and other sections.
    pub(crate) async fn start(devices: usize, settings: &[(&str, &str)]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let database_url = format!("sqlite:{}", state.path().join("devices.db").display());
        let count = devices.to_string();
        let add = ["device", "add", PRODUCT, "d", "--secret", SECRET];
        let add = [&add[..], &["--count", &count, "--database", &database_url]].concat();
        jetway(&add, &[]);
        let nats = NatsServer::start().await;
        let listener = (
            "JETWAY_LISTENER",
            "[{ listen = '127.0.0.1:0', proxy_protocol = true }]",
        );
        let roles = ("JETWAY_ROLES", r#"["gateway"]"#);
        let settings = [listener, roles]
            .into_iter()
            .chain(settings.iter().copied());
        let environment = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = RunOptions {
            nats_url: nats.url(),
            database_url: database_url.clone(),
            environment: environment.collect(),
            ..RunOptions::default()
        };
        Self {
            gateway: Gateway::run(options).await,
            nats,
            database_url,
            _state: state,
        }
    }

    /// What a device logs in with.
    pub(crate) fn device(number: usize) -> Credentials {
        Credentials::new(PRODUCT, &format!("d{number}"), SECRET)
    }

    /// Where it reports.
    pub(crate) fn topic(number: usize) -> String {
        format!("$thing/up/property/{PRODUCT}/d{number}")
    }

    /// A CONNECT that comes from this address; the code of its CONNACK, and the connection.
    pub(crate) async fn connect(
        &self,
        from: &str,
        protocol: Protocol,
        who: &Credentials,
    ) -> (u8, Wire) {
        let listener: SocketAddr = self.gateway.ready.listeners[0].listen.unwrap();
        let mut wire = Wire::connect(listener).await;
        let header = format!("PROXY TCP4 {from} 10.0.0.1 54321 1883\r\n");
        let connect = packet::connect(protocol, who, 60);
        wire.send(&[header.as_bytes(), &connect].concat()).await;
        let connack = wire.packet().await.expect("a CONNACK");
        assert_eq!(connack[0], 0x20);
        (connack[3], wire)
    }

    /// Counted for this reason.
    pub(crate) async fn refused(&self, reason: &str) -> f64 {
        let metric = format!("jetway_refusals_total{{reason=\"{reason}\"}}");
        self.gateway.metric(&metric).await
    }

    /// Waits until as much is counted for this reason.
    pub(crate) async fn refuses(&self, reason: &str, count: f64) {
        eventually(&format!("{count} refused: {reason}"), async || {
            match self.refused(reason).await {
                found if found >= count => Ok(()),
                found => Err(format!("{found}")),
            }
        })
        .await;
    }

    /// Who is blocked, as `kind value`, by the operator's port.
    pub(crate) async fn bans(&self) -> Vec<String> {
        let (status, body) = self.gateway.get("/bans").await;
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let bans = answer["nodes"][0]["bans"].as_array().unwrap().iter();
        let text = |ban: &Value, key: &str| ban[key].as_str().unwrap().to_owned();
        bans.map(|ban| text(ban, "kind") + " " + &text(ban, "value"))
            .collect()
    }

    /// Status of a request to the operator's port.
    pub(crate) async fn ask(&self, method: &str, path: &str) -> u16 {
        http::request(self.gateway.ready.http, method, path).await.0
    }

    /// What a command of the program prints that asks the gateway.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let servers = [
            ("JETWAY_NATS_URL", &*self.nats.url()),
            ("JETWAY_DATABASE_URL", &*self.database_url),
        ];
        jetway(arguments, &servers)
    }

    /// A backend service at its nats-server.
    pub(crate) async fn backend(&self) -> Backend {
        Backend::connect(&self.nats.url()).await
    }
}
