//! One nats-server, workers beside it, and what lies in the streams.

use serde_json::Value;

use crate::support::{Backend, Gateway, NatsServer, RunOptions, Stored, eventually};

/// What `report` publishes is of this product.
pub(crate) const PRODUCT: &str = "P.1";

pub(crate) struct Site {
    pub(crate) backend: Backend,
    /// None: the servers are the test's own.
    nats: Option<NatsServer>,
    url: String,
    /// Of every worker.
    environment: Vec<(String, String)>,
}

/// An application event with what its message says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) body: Value,
}

impl Site {
    /// A server without a worker.
    pub(crate) async fn start() -> Self {
        let nats = NatsServer::start().await;
        let url = nats.url();
        Self {
            nats: Some(nats),
            ..Self::at(url, Vec::new()).await
        }
    }

    /// At servers that run already; with further configuration of every worker.
    pub(crate) async fn at(url: String, environment: Vec<(String, String)>) -> Self {
        Self {
            backend: connect(&url).await,
            nats: None,
            url,
            environment,
        }
    }

    /// The one server.
    pub(crate) fn nats(&mut self) -> &mut NatsServer {
        self.nats.as_mut().expect("the site has one server")
    }

    /// A connection of its own.
    pub(crate) async fn another_backend(&self) -> Backend {
        connect(&self.url).await
    }

    /// A worker's process; returns when it is ready.
    pub(crate) async fn worker(&self) -> Gateway {
        self.worker_with(&[]).await
    }

    /// The same, with further configuration.
    pub(crate) async fn worker_with(&self, environment: &[(&str, &str)]) -> Gateway {
        let own = [
            ("JETWAY_ROLES", r#"["events"]"#),
            ("JETWAY_EVENTS_LEASE_MS", "1000"),
        ];
        let environment = own.iter().chain(environment);
        let environment =
            environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Gateway::run(RunOptions {
            nats_url: self.url.clone(),
            database_url: "sqlite:/nowhere/at.all".to_owned(),
            environment: environment.chain(self.environment.clone()).collect(),
            ..RunOptions::default()
        })
        .await
    }

    /// Stores a device's message of a type of the thing model as a gateway does; gives its sequence.
    pub(crate) async fn uplink(&self, device: &str, kind: &str, payload: &str) -> u64 {
        let subject = format!("device.up.mqtt.thing.P%2E1.{device}");
        let headers = [
            ("Jw-Type", kind),
            ("Jw-Ts", "1754000000123"),
            ("Jw-Qos", "1"),
        ];
        let payload = payload.to_owned();
        self.backend.publish(&subject, &headers, payload).await
    }

    /// Stores a report of one property.
    pub(crate) async fn report(&self, device: &str, number: u64) -> u64 {
        let payload = format!(r#"{{"method":"report","msgToken":"t","params":{{"n":{number}}}}}"#);
        self.uplink(device, "property", &payload).await
    }

    /// All application events in order.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let stored = self
            .backend
            .messages("APPLICATION", "application.*.>")
            .await;
        let events = stored
            .iter()
            .filter(|stored| !stored.subject.starts_with("application.cursor."));
        events.map(Event::of).collect()
    }

    /// Waits until there are so many, and gives all.
    pub(crate) async fn wait_for_events(&self, count: usize) -> Vec<Event> {
        eventually(&format!("{count} events"), async || {
            let events = self.events().await;
            match events.len() >= count {
                true => Ok(events),
                false => Err(format!("{} events", events.len())),
            }
        })
        .await
    }

    /// Waits until the cursor of the first shard is at the end of the uplink stream.
    pub(crate) async fn wait_until_passed(&self) {
        let uplinks = Box::pin(self.backend.stream("DEVICE_UP")).await;
        let last = uplinks.cached_info().state.last_sequence;
        Box::pin(self.wait_for_cursor(last)).await;
    }

    pub(crate) async fn wait_for_cursor(&self, sequence: u64) {
        eventually(&format!("the cursor is at {sequence}"), async || {
            let cursor = self.cursor().await;
            match cursor
                .as_ref()
                .and_then(|cursor| cursor["sequence"].as_u64())
            {
                Some(at) if at >= sequence => Ok(()),
                _ => Err(format!("{cursor:?}")),
            }
        })
        .await;
    }

    /// The cursor of the first shard.
    pub(crate) async fn cursor(&self) -> Option<Value> {
        let cursors = self
            .backend
            .messages("APPLICATION", "application.cursor.0")
            .await;
        let last = cursors.last()?;
        Some(serde_json::from_slice(&last.payload).unwrap())
    }

    /// Takes the cursor away, as if it had grown too old.
    pub(crate) async fn forget_cursor(&self) {
        let stream = self.backend.stream("APPLICATION").await;
        stream.purge().filter("application.cursor.0").await.unwrap();
    }

    /// All dead letters in order.
    pub(crate) async fn dead_letters(&self) -> Vec<Stored> {
        self.backend.messages("DLQ", "dlq.>").await
    }
}

/// To the first server; it names the others.
async fn connect(urls: &str) -> Backend {
    Backend::connect(urls.split(',').next().unwrap()).await
}

impl Event {
    fn of(stored: &Stored) -> Self {
        Self {
            subject: stored.subject.clone(),
            id: stored.header("Jw-Event-Id").to_owned(),
            source: stored.header("Jw-Source").to_owned(),
            body: serde_json::from_slice(&stored.payload).unwrap(),
        }
    }

    /// The number that `Site::report` gave it.
    pub(crate) fn number(&self) -> u64 {
        self.body["data"]["params"]["n"].as_u64().unwrap()
    }

    /// The device's token.
    pub(crate) fn device(&self) -> &str {
        self.subject.split('.').nth(3).unwrap()
    }
}
