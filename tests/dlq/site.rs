//! A gateway, its nats-server, and Python services on durables with a short ladder.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Child;

use crate::support::{
    Backend, Gateway, NatsServer, RunOptions, Stored, eventually, jetway, jetway_fails, python,
    within,
};

/// All of one test.
pub(crate) struct Site {
    pub(crate) nats: NatsServer,
    pub(crate) gateway: Gateway,
    pub(crate) backend: Backend,
    state: TempDir,
}

/// A running service; killed when dropped.
pub(crate) struct Service {
    _child: Child,
    told: Subscriber,
}

fn beside(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dlq");
    folder.join(name)
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_looking_every("100").await
    }

    /// With a gateway that looks at streams and durables so often, in milliseconds.
    pub(crate) async fn start_looking_every(interval_ms: &str) -> Self {
        let nats = NatsServer::start().await;
        let state = tempfile::tempdir().unwrap();
        let gateway = run(&nats, &state, interval_ms).await;
        let backend = Backend::connect(&nats.url()).await;
        Self {
            nats,
            gateway,
            backend,
            state,
        }
    }

    /// Another gateway in the place of one that was killed.
    pub(crate) async fn restart_gateway(&mut self) {
        self.gateway = self.further_gateway().await;
    }

    /// One more gateway with the same servers.
    pub(crate) async fn further_gateway(&self) -> Gateway {
        run(&self.nats, &self.state, "100").await
    }

    /// A service on a durable of stream ORDERS; `does` is what it does with each message, or empty: what the message says.
    pub(crate) async fn service(&self, durable: &str, does: &str) -> Service {
        let told = self.backend.subscribe(&format!("told.{durable}")).await;
        let arguments = serde_json::json!({
            "url": self.nats.url(), "stream": "ORDERS", "durable": durable, "does": does,
        });
        let mut command = tokio::process::Command::from(python(beside("service.py")));
        command.arg(arguments.to_string()).kill_on_drop(true);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        Service {
            _child: child,
            told,
        }
    }

    /// Publishes into stream ORDERS; gives the sequence.
    pub(crate) async fn order(&self, subject: &str, text: &str) -> u64 {
        let headers = [("Jw-Ts", "1"), ("X-Own", "kept"), ("traceparent", TRACE)];
        self.backend
            .publish(subject, &headers, text.to_owned())
            .await
    }

    /// Waits until there are so many dead letters of durables, and no advisory waits; gives them.
    pub(crate) async fn dead_letters(&self, count: usize) -> Vec<Stored> {
        eventually(&format!("{count} dead letters"), async || {
            let waiting = self.backend.count("JETWAY_ADVISORIES").await;
            let letters = self.backend.messages("DLQ", "dlq.durable.>").await;
            match (letters.len() == count, waiting) {
                (true, 0) => Ok(letters),
                _ => {
                    let billing = self.api("CONSUMER.INFO.ORDERS.billing", "").await;
                    let found = letters.len();
                    Err(format!(
                        "{found} dead letters, {waiting} advisories, {billing}"
                    ))
                }
            }
        })
        .await
    }

    /// Runs a command of the program to its end, and gives what it printed, a JSON object a line.
    pub(crate) fn jetway(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = jetway(arguments, &self.environment());
        let lines = printed.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    /// Runs a command that fails; gives what it printed to standard error.
    pub(crate) fn jetway_fails(&self, arguments: &[&str]) -> String {
        jetway_fails(arguments, &self.environment()).1
    }

    fn environment(&self) -> [(&'static str, &'static str); 2] {
        let url: &'static str = Box::leak(self.nats.url().into_boxed_str());
        let rules = beside("rules.toml").display().to_string();
        [
            ("JETWAY_NATS_URL", url),
            ("JETWAY_RULES_FILE", Box::leak(rules.into_boxed_str())),
        ]
    }

    /// The numbers of all dead letters that match the conditions.
    pub(crate) fn ids(&self, conditions: &[&str]) -> Vec<u64> {
        let command = [&["dlq", "ls", "--json"], conditions].concat();
        let letters = self.jetway(&command);
        letters
            .iter()
            .map(|letter| letter["id"].as_u64().unwrap())
            .collect()
    }

    /// A request of the JetStream API.
    pub(crate) async fn api(&self, subject: &str, body: &str) -> Value {
        let answer = self
            .backend
            .request(&format!("$JS.API.{subject}"), body.to_owned())
            .await;
        serde_json::from_slice(&answer.payload).unwrap()
    }
}

impl Service {
    /// What it was given next.
    pub(crate) async fn told(&mut self) -> Value {
        let message = within("a service to be given a message", self.told.next()).await;
        serde_json::from_slice(&message.unwrap().payload).unwrap()
    }

    /// What it is given until it was given this text for the first time.
    pub(crate) async fn told_until(&mut self, text: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let told = self.told().await;
            let last = told["payload"] == text;
            all.push(told);
            if last {
                return all;
            }
        }
    }
}

/// Of every order.
pub(crate) const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn run(nats: &NatsServer, state: &TempDir, interval_ms: &str) -> Gateway {
    let database_url = format!("sqlite:{}", state.path().join("devices.db").display());
    let environment = [
        (
            "JETWAY_RULES_FILE",
            beside("rules.toml").display().to_string(),
        ),
        ("JETWAY_STREAMS_CHECK_INTERVAL_MS", interval_ms.to_owned()),
    ];
    Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url,
        environment: environment
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..RunOptions::default()
    })
    .await
}
