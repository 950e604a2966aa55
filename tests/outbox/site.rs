//! A database, a nats-server with a stream, and relays in processes of their own.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jetway::database::Kind;
use jetway::jetstream::{Link, client};
use jetway::outbox::publisher::JetStream;
use jetway::outbox::store::{Store, Wake};
use jetway::outbox::{Config, Metrics, Relay};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::rig::{Database, events, pool};
use crate::support::{Backend, NatsServer, eventually};

const NATS: &str = "OUTBOX_TEST_NATS";
const DATABASE: &str = "OUTBOX_TEST_DATABASE";
const STREAM: &str = "GPS";
/// How long a relay that is not heard of keeps its rows.
pub(crate) const LEASE: Duration = Duration::from_millis(2_500);

pub(crate) struct Site {
    pub(crate) database: Database,
    pub(crate) server: NatsServer,
    pub(crate) backend: Backend,
    /// The next event of each device.
    next: u64,
}

/// A relay in this process.
pub(crate) struct Running {
    pub(crate) relay: Relay<JetStream>,
    shutdown: CancellationToken,
    task: JoinSet<()>,
}

impl Running {
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while self.task.join_next().await.is_some() {}
    }
}

pub(crate) fn config() -> Config {
    Config {
        lease_ms: u64::try_from(LEASE.as_millis()).unwrap(),
        poll_interval_ms: 200,
        batch_rows_max: 300,
        backoff_ms: vec![200],
        attempts_max: 3,
        ..Config::default()
    }
}

async fn relay(nats: &str, database: &str, config: Config) -> Relay<JetStream> {
    let nats = client::Config {
        url: nats.to_owned(),
        ..client::Config::default()
    };
    let link = Link::connect(&nats).await.unwrap();
    Relay {
        store: Store::new(pool(database).await),
        publisher: Arc::new(JetStream::new(&link, config.publish_max())),
        config,
        metrics: Metrics::default(),
        wake: Wake::default(),
    }
}

/// The other process of the tests; on its own, with nothing to do, it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_process() {
    let (Ok(nats), Ok(database)) = (std::env::var(NATS), std::env::var(DATABASE)) else {
        return;
    };
    relay(&nats, &database, config())
        .await
        .serve(CancellationToken::new())
        .await;
}

impl Site {
    /// With a stream that remembers ids so long.
    pub(crate) async fn start(kind: Kind, window: Duration) -> Self {
        Self::on(Database::start(kind).await, window).await
    }

    pub(crate) async fn on(database: Database, window: Duration) -> Self {
        let server = NatsServer::start().await;
        let backend = Backend::connect(&server.url()).await;
        let stream = json!({
            "name": STREAM, "subjects": ["gps.>"], "allow_direct": true, "max_msg_size": 10_000,
            "duplicate_window": u64::try_from(window.as_nanos()).unwrap(),
        });
        let create = format!("$JS.API.STREAM.CREATE.{STREAM}");
        let answer = backend.request(&create, stream.to_string()).await;
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
        Self {
            database,
            server,
            backend,
            next: 0,
        }
    }

    pub(crate) fn process(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["site::relay_process", "--exact", "--nocapture"])
            .env(NATS, self.server.url())
            .env(DATABASE, &self.database.url)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub(crate) async fn running(&self) -> Running {
        self.running_with(config()).await
    }

    pub(crate) async fn running_with(&self, config: Config) -> Running {
        let relay = relay(&self.server.url(), &self.database.url, config).await;
        let (shutdown, mut task) = (CancellationToken::new(), JoinSet::new());
        task.spawn(relay.clone().serve(shutdown.clone()));
        Running {
            relay,
            shutdown,
            task,
        }
    }

    /// Writes `count` events of each device.
    pub(crate) async fn write(&mut self, devices: u64, count: u64) {
        let numbers = self.next..self.next + count;
        let all: Vec<_> = (0..devices)
            .flat_map(|device| events(&format!("d{device}"), numbers.clone()))
            .collect();
        self.database.write(&all).await;
        self.next += count;
    }

    /// Waits until all is published, and looks at what the stream has: each event of each device once, in order.
    pub(crate) async fn check(&self, devices: u64) {
        self.until_empty().await;
        self.check_stream(devices).await;
    }

    pub(crate) async fn until_empty(&self) {
        eventually("the outbox is empty", async || {
            let stats = self.database.store.stats().await.unwrap();
            match (stats.pending, stats.sending) {
                (0, 0) => Ok(()),
                _ => Err(format!("{stats:?}")),
            }
        })
        .await;
        let stats = self.database.store.stats().await.unwrap();
        assert_eq!(stats.dead, 0);
    }

    pub(crate) async fn check_stream(&self, devices: u64) {
        let messages = self.backend.messages(STREAM, ">").await;
        let mut ids = HashSet::new();
        let mut numbers: HashMap<String, Vec<u64>> = HashMap::new();
        for message in &messages {
            let id = message.header("Jw-Event-Id").to_owned();
            assert_eq!(message.header("Nats-Msg-Id"), id);
            assert!(
                ids.insert(id),
                "{} twice: {}",
                message.subject,
                message.text()
            );
            let event: Value = serde_json::from_slice(&message.payload).unwrap();
            let number = event["number"].as_u64().unwrap();
            numbers
                .entry(message.subject.clone())
                .or_default()
                .push(number);
        }
        assert_eq!(messages.len() as u64, devices * self.next);
        for (subject, numbers) in numbers {
            assert!(
                numbers.iter().copied().eq(0..self.next),
                "{subject}: {numbers:?}"
            );
        }
        // And no try that said nothing about a row was counted as one.
        let attempts = "SELECT id FROM outbox_event WHERE attempts > 0";
        assert!(self.database.numbers(attempts).await.is_empty());
    }
}

pub(crate) fn signal(process: &Child, signal: Signal) {
    let process = Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}
