//! A nats-server with a stream and a durable, a database, and a service whose handler writes down what it was given.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use async_nats::jetstream::consumer::{Info, pull};
use jetway::consumer::{Config, Consumer, Event, Failure, Handle, Inbox, Metrics, Transaction};
use jetway::database::Pool;
use jetway::jetstream::{Link, client};
use serde_json::{Value, json};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Backend, NatsServer, eventually, within};

pub(crate) const STREAM: &str = "APPLICATION";
pub(crate) const DURABLE: &str = "app-events";
/// SQLite has one writer, so one connection is enough, and waits in turn.
pub(crate) const ONE_WRITER: Writers = Writers {
    connections: 1,
    busy: Duration::from_secs(10),
};
/// Nothing comes again by itself within a test.
pub(crate) const NEVER: &[u64] = &[600_000];

pub(crate) struct Rig {
    pub(crate) server: NatsServer,
    pub(crate) backend: Backend,
    pub(crate) pool: SqlitePool,
    folder: TempDir,
}

impl Rig {
    /// With a durable of this ladder, in milliseconds, and one delivery more than it has steps.
    pub(crate) async fn start(ladder_ms: &[u64]) -> Self {
        let server = NatsServer::start().await;
        let backend = Backend::connect(&server.url()).await;
        let folder = tempfile::tempdir().unwrap();
        let pool = open(&folder.path().join("service.db"), ONE_WRITER).await;
        let table = "CREATE TABLE work (replica TEXT, device TEXT, number INTEGER, event_id TEXT)";
        sqlx::query(table).execute(&pool).await.unwrap();
        let rig = Self {
            server,
            backend,
            pool,
            folder,
        };
        let stream = json!({"name": STREAM, "subjects": ["application.>", "replay.>"]});
        rig.api(&format!("STREAM.CREATE.{STREAM}"), stream).await;
        rig.durable(ladder_ms).await;
        rig
    }

    pub(crate) async fn durable(&self, ladder_ms: &[u64]) {
        let backoff: Vec<u64> = ladder_ms.iter().map(|ms| ms * 1_000_000).collect();
        let durable = json!({"stream_name": STREAM, "config": {
            "durable_name": DURABLE, "ack_policy": "explicit", "backoff": backoff, "max_deliver": backoff.len() + 1,
            "filter_subjects": ["application.>", format!("replay.{DURABLE}.>")],
        }});
        let create = format!("CONSUMER.CREATE.{STREAM}.{DURABLE}");
        self.api(&create, durable).await;
    }

    pub(crate) async fn api(&self, call: &str, body: Value) {
        let payload = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = self
            .backend
            .request(&format!("$JS.API.{call}"), payload)
            .await;
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("service.db")
    }

    /// Publishes the event `number` of a device, as its own event.
    pub(crate) async fn publish(&self, device: &str, number: u64) {
        let id = format!("{device}.{number}");
        self.publish_as(device, &event(&id, "1.0", json!({ "number": number })))
            .await;
    }

    /// Publishes these bytes on a device's subject.
    pub(crate) async fn publish_as(&self, device: &str, payload: &str) {
        let subject = format!("application.device.p.{device}.report.thing.property");
        self.backend
            .publish(&subject, &[], payload.to_owned())
            .await;
    }

    /// A replica of the service in this process.
    pub(crate) async fn replica(&self, handler: &Recorder) -> Replica {
        let config = Config::new(STREAM, DURABLE);
        self.replica_with(handler, config).await
    }

    pub(crate) async fn replica_with(&self, handler: &Recorder, config: Config) -> Replica {
        let pool = open(&self.database(), ONE_WRITER).await;
        self.replica_on(pool, handler, config).await
    }

    pub(crate) async fn replica_on(
        &self,
        pool: SqlitePool,
        handler: &Recorder,
        config: Config,
    ) -> Replica {
        let (consumer, _) = consumer(&self.server.url(), pool, handler.clone(), config).await;
        let (metrics, shutdown) = (consumer.metrics(), CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(consumer.run(shutdown.clone()));
        Replica {
            metrics,
            shutdown,
            task,
        }
    }

    /// What was committed: device and number, in the order of the commits.
    pub(crate) async fn rows(&self) -> Vec<(String, u64)> {
        let select = "SELECT device, number FROM work ORDER BY rowid";
        sqlx::query_as(select).fetch_all(&self.pool).await.unwrap()
    }

    pub(crate) async fn until_rows(&self, count: usize) -> Vec<(String, u64)> {
        eventually(&format!("{count} events are committed"), async || {
            let rows = self.rows().await;
            match rows.len() >= count {
                true => Ok(rows),
                false => Err(format!("{}", rows.len())),
            }
        })
        .await
    }

    /// Waits until the server has nothing left for the service; gives how the durable looks then.
    pub(crate) async fn until_done(&self) -> Info {
        let done = |info: &Info| info.num_pending == 0 && info.num_ack_pending == 0;
        self.until("nothing is left", done).await
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Info) -> bool) -> Info {
        eventually(what, async || {
            let stream = self.backend.stream(STREAM).await;
            let durable = stream.get_consumer::<pull::Config>(DURABLE).await;
            let info = durable
                .map_err(|error| error.to_string())?
                .cached_info()
                .clone();
            match condition(&info) {
                true => Ok(info),
                false => Err(format!("{info:?}")),
            }
        })
        .await
    }

    /// What the server says about messages that it gives up.
    pub(crate) async fn advisories(&self) -> Advisories {
        let subject = format!("$JS.EVENT.ADVISORY.CONSUMER.*.{STREAM}.{DURABLE}");
        Advisories(self.backend.subscribe(&subject).await)
    }
}

/// The bytes of an event.
pub(crate) fn event(id: &str, version: &str, data: Value) -> String {
    json!({
        "event_id": id, "event_name": "device.property.reported", "event_version": version,
        "event_time": "2026-10-14T08:30:00.123Z", "producer": "jetway",
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "data": data,
    })
    .to_string()
}

/// How a service writes to the database.
#[derive(Clone, Copy)]
pub(crate) struct Writers {
    pub(crate) connections: u32,
    /// How long one waits for another.
    pub(crate) busy: Duration,
}

pub(crate) async fn open(file: &Path, writers: Writers) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(writers.busy);
    let pool = SqlitePoolOptions::new().max_connections(writers.connections);
    pool.connect_with(options).await.unwrap()
}

/// The service: its consumer, and its own connection.
pub(crate) async fn consumer(
    nats: &str,
    pool: SqlitePool,
    handler: impl Handle,
    config: Config,
) -> (Consumer, Link) {
    let url = nats.to_owned();
    let nats = client::Config {
        url,
        ..client::Config::default()
    };
    let link = Link::connect(&nats).await.unwrap();
    let inbox = Inbox::open(Pool::Sqlite(pool)).await.unwrap();
    let consumer = Consumer::new(&link, config, inbox);
    (
        consumer.on("device.property.reported", "1.0", handler),
        link,
    )
}

/// The same in a process that shares nothing but NATS and the database file.
pub(crate) async fn serve(nats: &str, database: &Path, handler: Recorder) {
    let pool = open(database, ONE_WRITER).await;
    let config = Config::new(STREAM, DURABLE);
    let (consumer, _link) = consumer(nats, pool, handler, config).await;
    consumer.run(CancellationToken::new()).await;
}

pub(crate) struct Replica {
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
    task: JoinSet<()>,
}

impl Replica {
    /// Stops it in good order; returns when it is stopped.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        self.stopped().await;
    }

    pub(crate) async fn stopped(&mut self) {
        let ended = within("the replica to stop", self.task.join_next()).await;
        ended.unwrap().unwrap();
    }

    /// Ends its loop, as a crash would; handlers that run go on.
    pub(crate) async fn crash(mut self) {
        self.task.shutdown().await;
    }
}

/// One call of the handler.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) device: String,
    pub(crate) number: u64,
    pub(crate) attempt: u64,
    pub(crate) subject: String,
    pub(crate) traceparent: String,
    pub(crate) at: Instant,
}

type Behaviour = dyn Fn(&Call) -> Result<(), Failure> + Send + Sync;

/// A handler that writes a row per event, once it may go on.
#[derive(Clone)]
pub(crate) struct Recorder {
    replica: String,
    calls: Arc<Mutex<Vec<Call>>>,
    behaviour: Arc<Behaviour>,
    /// A permit for each call that may go on.
    pub(crate) gate: Arc<Semaphore>,
}

impl Recorder {
    /// One that handles everything at once.
    pub(crate) fn new(replica: &str) -> Self {
        Self {
            replica: replica.to_owned(),
            calls: Arc::default(),
            behaviour: Arc::new(|_| Ok(())),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// One that waits for permits of its gate.
    pub(crate) fn gated(replica: &str) -> Self {
        Self {
            gate: Arc::new(Semaphore::new(0)),
            ..Self::new(replica)
        }
    }

    /// One that ends so, after it has written its row.
    pub(crate) fn ending(
        behaviour: impl Fn(&Call) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            behaviour: Arc::new(behaviour),
            ..Self::new("only")
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) async fn until_calls(&self, count: usize) -> Vec<Call> {
        eventually(&format!("{count} calls"), async || {
            let calls = self.calls();
            match calls.len() >= count {
                true => Ok(calls),
                false => Err(format!("{calls:?}")),
            }
        })
        .await
    }
}

#[derive(serde::Deserialize)]
struct Data {
    number: u64,
}

impl Handle for Recorder {
    async fn handle(&self, event: &Event, transaction: &mut Transaction) -> Result<(), Failure> {
        let Data { number } = event.data()?;
        let device = event.subject.split('.').nth(3).unwrap_or_default();
        let call = Call {
            device: device.to_owned(),
            number,
            attempt: event.attempt,
            subject: event.subject.to_string(),
            traceparent: event.traceparent.clone(),
            at: Instant::now(),
        };
        self.calls.lock().unwrap().push(call.clone());
        let Transaction::Sqlite(transaction) = transaction else {
            panic!("expected a transaction of SQLite");
        };
        sqlx::query("INSERT INTO work (replica, device, number, event_id) VALUES (?, ?, ?, ?)")
            .bind(&self.replica)
            .bind(device)
            .bind(i64::try_from(number)?)
            .bind(&event.received.event_id)
            .execute(&mut **transaction)
            .await?;
        self.gate.acquire().await?.forget();
        (self.behaviour)(&call)
    }
}

pub(crate) struct Advisories(Subscriber);

impl Advisories {
    /// Kind (`max_deliver`, `terminated`) and reason of the next one.
    pub(crate) async fn next(&mut self, backend: &Backend) -> (String, String) {
        loop {
            let advisory = backend.next(&mut self.0).await;
            let advisory: Value = serde_json::from_slice(&advisory.payload).unwrap();
            let text = |key: &str| advisory[key].as_str().unwrap_or_default().to_owned();
            let kind = text("type").rsplit('.').next().unwrap().to_owned();
            // Naks have advisories as well.
            if kind != "consumer_nak" && kind != "nak" {
                return (kind, text("reason"));
            }
        }
    }
}
