//! One nats-server and gateways of one profile beside each other, and what lies in the streams.

use std::sync::atomic::{AtomicUsize, Ordering};

use std::net::SocketAddr;

use jetway::mqtt::{QoS, Version};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Hello;
use crate::support::{
    Backend, Credentials, FaultProxy, Gateway, NatsServer, RunOptions, Stored, eventually, jetway,
};

pub(crate) const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];
/// Of all devices here.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
/// After so many seconds without a sign of life a node is lost.
pub(crate) const LEASE_S: u64 = 2;

pub(crate) struct Site {
    pub(crate) nats: NatsServer,
    pub(crate) backend: Backend,
    /// With the device profile: where the devices are registered, and how many have been given out.
    devices: Option<(TempDir, AtomicUsize)>,
}

/// How a client publishes, and where that is stored.
pub(crate) struct Publisher {
    pub(crate) hello: Hello,
    pub(crate) topic: String,
    stream: &'static str,
    subject: String,
}

/// A status event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) sequence: u64,
    pub(crate) client_id: String,
    pub(crate) connection_id: String,
    pub(crate) epoch: u64,
    /// None: connected.
    pub(crate) reason: Option<String>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let nats = NatsServer::start().await;
        let backend = Backend::connect(&nats.url()).await;
        Self {
            nats,
            backend,
            devices: None,
        }
    }

    /// With the device profile, and so many devices.
    pub(crate) async fn of_devices(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (url, count) = (database_url(&folder), count.to_string());
        let add = ["device", "add", "flows", "d", "--secret", SECRET];
        jetway(
            &[&add[..], &["--count", &count, "--database", &url]].concat(),
            &[],
        );
        Self {
            devices: Some((folder, AtomicUsize::new(0))),
            ..Self::start().await
        }
    }

    /// One with a session of an hour that nobody else is.
    pub(crate) fn publisher(&self, version: Version, client_id: &str) -> Publisher {
        let Some((_, given_out)) = &self.devices else {
            return Publisher {
                hello: Hello::new(version, client_id),
                topic: format!("up/{client_id}"),
                stream: "MQTT",
                subject: format!("mqtt.up.{client_id}"),
            };
        };
        let name = format!("d{}", given_out.fetch_add(1, Ordering::Relaxed));
        Publisher {
            hello: Hello::of_device(version, Credentials::new("flows", &name, SECRET)),
            topic: format!("$thing/up/property/flows/{name}"),
            stream: "DEVICE_UP",
            subject: format!("device.up.mqtt.thing.flows.{name}"),
        }
    }

    /// The texts that are stored of a publisher.
    pub(crate) async fn published(&self, publisher: &Publisher) -> Vec<String> {
        let Publisher {
            stream, subject, ..
        } = publisher;
        let messages = self.backend.messages(stream, subject).await;
        messages
            .iter()
            .map(|stored| stored.text().to_owned())
            .collect()
    }

    /// What is held of a client of the open profile until its PUBREL: packet identifiers and texts.
    pub(crate) async fn held(&self, client_id: &str) -> Vec<String> {
        let filter = format!("mqtt_held.open.{client_id}.*");
        let messages = self.backend.messages("MQTT", &filter).await;
        let held = messages.iter().map(|stored| {
            let packet_id = stored.subject.rsplit('.').next().unwrap_or_default();
            format!("{packet_id} {}", stored.text())
        });
        held.collect()
    }

    /// Waits until nothing is held of a client.
    pub(crate) async fn holds_nothing(&self, client_id: &str) {
        let query = format!(r#"{{"subjects_filter":"mqtt_held.open.{client_id}.*"}}"#);
        eventually(&format!("nothing is held of {client_id}"), async || {
            // Reading it would wait for what is removed meanwhile.
            let api = "$JS.API.STREAM.INFO.MQTT";
            let info = self.backend.request(api, query.clone()).await;
            let info: Value = serde_json::from_slice(&info.payload).unwrap();
            match info["state"]["subjects"].as_object() {
                None => Ok(()),
                Some(held) => Err(format!("{held:?}")),
            }
        })
        .await;
    }

    /// Starts a gateway.
    pub(crate) async fn node(&self) -> Gateway {
        self.node_with(&[]).await
    }

    /// Starts a gateway where another one was.
    pub(crate) async fn node_at(&self, address: SocketAddr) -> Gateway {
        self.node_with(&[("JETWAY_MQTT_LISTEN", &address.to_string())])
            .await
    }

    pub(crate) async fn node_with(&self, environment: &[(&str, &str)]) -> Gateway {
        self.run(self.nats.url(), environment).await
    }

    /// Starts a gateway that reaches nats-server through a proxy.
    pub(crate) async fn node_behind(
        &self,
        proxy: &FaultProxy,
        environment: &[(&str, &str)],
    ) -> Gateway {
        self.run(proxy.url(), environment).await
    }

    async fn run(&self, nats_url: String, environment: &[(&str, &str)]) -> Gateway {
        let lease = LEASE_S.to_string();
        let (profile, database_url) = match &self.devices {
            None => ("open", "sqlite::memory:".to_owned()),
            Some((folder, _)) => ("device", database_url(folder)),
        };
        let own = [
            ("JETWAY_PROFILE", profile),
            // Histories connect as often as they like.
            ("JETWAY_PROTECTION_FLAPPING", "{ connects_max = 0 }"),
            ("JETWAY_OWNERSHIP_LEASE_S", &lease),
            ("JETWAY_OWNERSHIP_RELEASE_TIMEOUT_MS", "1000"),
        ];
        let environment = own.iter().chain(environment);
        let environment = environment.map(|(name, value)| ((*name).into(), (*value).into()));
        Gateway::run(RunOptions {
            nats_url,
            database_url,
            environment: environment.collect(),
            ..RunOptions::default()
        })
        .await
    }

    /// Sends to whoever subscribes to a topic of literal levels, as a service does; returns when it is stored.
    pub(crate) async fn send(&self, topic: &str, qos: QoS, text: &str) {
        let subject = format!("mqtt.{}", topic.replace('/', "."));
        let qos = (qos as u8).to_string();
        self.backend
            .publish(&subject, &[("Jw-Qos", &qos)], text.to_owned())
            .await;
    }

    /// Kills a gateway and starts another.
    pub(crate) async fn killed(&self, mut gateway: Gateway) -> Gateway {
        gateway.kill9().await;
        self.node().await
    }

    /// The texts that are stored on a topic of literal levels.
    pub(crate) async fn stored(&self, topic: &str) -> Vec<String> {
        let filter = format!("mqtt.{}", topic.replace('/', "."));
        let messages = self.backend.messages("MQTT", &filter).await;
        messages
            .iter()
            .map(|stored| stored.text().to_owned())
            .collect()
    }

    /// The status events of all clients, in order.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let events = self.backend.messages("DEVICE_STATUS", ">").await;
        events.iter().map(event).collect()
    }

    /// The status events of one client: for each its reason, or `connected`.
    pub(crate) async fn story(&self, client_id: &str) -> Vec<String> {
        let events = self.events().await.into_iter();
        let own = events.filter(|event| event.client_id == client_id);
        own.map(|event| event.reason.unwrap_or_else(|| "connected".to_owned()))
            .collect()
    }

    /// Waits until the status events of a client are these.
    pub(crate) async fn story_is(&self, client_id: &str, expected: &[&str]) {
        eventually(&format!("{client_id}: {expected:?}"), async || {
            let story = self.story(client_id).await;
            match story == expected {
                true => Ok(()),
                false => Err(format!("{story:?}")),
            }
        })
        .await;
    }

    /// Waits until the Will of a client is stored; whatever was to come before it is stored by then.
    pub(crate) async fn has_will(&self, client_id: &str) {
        eventually(&format!("the Will of {client_id}"), async || {
            let wills = self.stored(&format!("will/{client_id}")).await;
            match wills.len() {
                1 => Ok(()),
                count => Err(format!("{count} of them")),
            }
        })
        .await;
    }

    /// What the bucket of sessions holds for a client; none if nothing is left.
    pub(crate) async fn session(&self, client_id: &str) -> Option<Value> {
        let key = format!("$KV.jetway_sessions.open.{client_id}");
        let document = self.backend.last("KV_jetway_sessions", &key).await?;
        serde_json::from_slice(&document).ok()
    }

    /// Waits until the end of a client's connection is written.
    pub(crate) async fn is_settled(&self, client_id: &str) {
        eventually("the end is written", async || {
            let session = self.session(client_id).await.expect("a session");
            match session["disconnected_at_ms"].is_u64() {
                true => Ok(()),
                false => Err(session.to_string()),
            }
        })
        .await;
    }

    /// Waits until the bucket of sessions holds nothing for a client.
    pub(crate) async fn session_is_gone(&self, client_id: &str) {
        eventually("the session is gone", async || {
            match self.session(client_id).await {
                None => Ok(()),
                Some(session) => Err(session.to_string()),
            }
        })
        .await;
    }
}

fn database_url(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("devices.db").display())
}

fn event(stored: &Stored) -> Event {
    let body: Value = serde_json::from_slice(&stored.payload).unwrap();
    let data = &body["data"];
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    Event {
        sequence: stored.sequence,
        client_id: text("client_id"),
        connection_id: text("connection_id"),
        epoch: data["epoch"].as_u64().unwrap(),
        reason: data["reason"].as_str().map(str::to_owned),
    }
}

/// Whether the events are those of connections one after the other: each begins once and ends at most once, later ones have
/// higher epochs, and only the last one may go on.
pub(crate) fn assert_in_order(events: &[Event]) {
    for (event, next) in events.iter().zip(&events[1..]) {
        match (&event.reason, &next.reason) {
            (None, Some(_)) => {
                assert_eq!(
                    event.connection_id, next.connection_id,
                    "{event:?} {next:?}"
                );
                assert_eq!(event.epoch, next.epoch, "{event:?} {next:?}");
            }
            (Some(_), None) => assert!(event.epoch < next.epoch, "{event:?} {next:?}"),
            _ => panic!("two of a kind: {event:?} {next:?}"),
        }
    }
    assert_eq!(events[0].reason, None, "{events:?}");
}
