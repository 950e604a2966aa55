//! A broker as a service's test sees it: a stream with a durable, what was given up, and replicas of a service with a database.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use jetway::broker::{Broker as _, Durable, Layout, Posting, Stream, memory, redis};
use jetway::consumer::{
    Config, Consumer, Event, Failure, Handle, Inbox, Metrics, Origin, Transaction,
};
use jetway::database::Pool;
use jetway::message::{Headers, Message};
use serde_json::{Value, json};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Backend, NatsServer, Redis, eventually, within};

const STREAM: &str = "APPLICATION";
const DURABLE: &str = "app-events";

/// Which broker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Jetstream,
    Memory,
    Redis,
}

#[allow(clippy::large_enum_variant, reason = "a test has one of them")]
enum Server {
    Jetstream(NatsServer, Backend, Mutex<async_nats::Subscriber>),
    Memory(memory::Broker),
    Redis(Redis, redis::Broker, redis::Storing),
}

/// A broker with one stream and one durable of a service, and the service's database.
pub(crate) struct Place {
    server: Server,
    service: Service,
    dead: Mutex<Vec<String>>,
}

/// The database of a service, and its replicas.
pub(crate) struct Service {
    pool: SqlitePool,
    folder: TempDir,
}

impl Place {
    /// With a durable of this ladder, in milliseconds, and one delivery more than it has steps.
    pub(crate) async fn start(kind: Kind, ladder_ms: &[u64]) -> Self {
        let backoff: Vec<u64> = ladder_ms.iter().map(|ms| ms * 1_000_000).collect();
        let stream = json!({"name": STREAM, "subjects": ["application.>", "replay.>"]});
        let durable = json!({
            "durable_name": DURABLE, "ack_policy": "explicit", "max_deliver": backoff.len() + 1, "backoff": backoff,
            "filter_subjects": ["application.*.p.>", format!("replay.{DURABLE}.>")],
        });
        let layout = Layout {
            streams: vec![Stream::read(STREAM, &stream)],
            durables: vec![Durable::read(STREAM, DURABLE, &durable)],
        };
        let server = match kind {
            Kind::Jetstream => {
                let server = NatsServer::start().await;
                let backend = Backend::connect(&server.url()).await;
                api(&backend, &format!("STREAM.CREATE.{STREAM}"), stream).await;
                let durable = json!({"stream_name": STREAM, "config": durable});
                api(
                    &backend,
                    &format!("CONSUMER.CREATE.{STREAM}.{DURABLE}"),
                    durable,
                )
                .await;
                let advisories = format!("$JS.EVENT.ADVISORY.CONSUMER.*.{STREAM}.{DURABLE}");
                let advisories = backend.subscribe(&advisories).await;
                Server::Jetstream(server, backend, Mutex::new(advisories))
            }
            Kind::Memory => {
                let broker = memory::Broker::default();
                broker.provision(&layout, 10_000);
                Server::Memory(broker)
            }
            Kind::Redis => {
                let server = Redis::start().await;
                let broker = redis::Broker::new(&redis::Config::new(&server.url())).unwrap();
                broker.provision(&layout).await.unwrap();
                let storing = redis::Storing::new(&broker, layout);
                Server::Redis(server, broker, storing)
            }
        };
        Self {
            server,
            service: Service::start().await,
            dead: Mutex::default(),
        }
    }

    /// The event `number` of a device.
    pub(crate) async fn publish(&self, device: &str, number: u64) {
        let id = format!("{device}.{number}");
        let event = event(&id, json!({"number": number}));
        self.publish_as(&format!("application.device.p.{device}"), event)
            .await;
    }

    pub(crate) async fn publish_as(&self, subject: &str, payload: String) {
        let posting = Posting {
            id: Uuid::now_v7(),
            key: "".into(),
            message: Message {
                subject: subject.into(),
                headers: Headers::default(),
                payload: payload.clone().into(),
            },
        };
        // After an outage the first call finds that its connection is gone.
        eventually("the event is stored", async || {
            let stored = match &self.server {
                Server::Jetstream(_, backend, _) => {
                    backend.publish(subject, &[], payload.clone()).await;
                    return Ok(());
                }
                Server::Memory(broker) => broker.store(std::slice::from_ref(&posting)).await,
                Server::Redis(_, _, storing) => storing.store(std::slice::from_ref(&posting)).await,
            };
            stored[0].clone().map_err(|fault| fault.to_string())
        })
        .await;
    }

    /// The broker as a service of its own process finds it.
    async fn origin(&self) -> Origin {
        match &self.server {
            Server::Jetstream(server, ..) => Origin::connect(&server.url()).await.unwrap(),
            Server::Memory(broker) => broker.into(),
            Server::Redis(server, ..) => Origin::connect(&server.url()).await.unwrap(),
        }
    }

    /// A replica of the service.
    pub(crate) async fn replica(&self, handler: &Recorder) -> Replica {
        self.replica_with(handler, Config::new(STREAM, DURABLE))
            .await
    }

    pub(crate) async fn replica_with(&self, handler: &Recorder, config: Config) -> Replica {
        let origin = self.origin().await;
        self.service.serve(origin, config, handler).await
    }

    pub(crate) async fn rows(&self) -> Vec<(String, u64)> {
        self.service.rows().await
    }

    pub(crate) async fn until_rows(&self, count: usize) -> Vec<(String, u64)> {
        self.service.until_rows(count).await
    }

    /// Waits until so many messages are given up, and gives their reasons.
    pub(crate) async fn until_dead(&self, count: usize) -> Vec<String> {
        eventually(&format!("{count} messages are given up"), async || {
            let reasons = self.dead().await;
            match reasons.len() >= count {
                true => Ok(reasons),
                false => Err(format!("{reasons:?}")),
            }
        })
        .await
    }

    async fn dead(&self) -> Vec<String> {
        let letters = match &self.server {
            Server::Jetstream(_, _, advisories) => {
                let mut advisories = advisories.lock().unwrap();
                let mut dead = self.dead.lock().unwrap();
                let mut next = || futures_util::StreamExt::next(&mut *advisories).now_or_never();
                let told = std::iter::from_fn(|| next().flatten());
                dead.extend(told.filter_map(|advisory| reason(&advisory)));
                return dead.clone();
            }
            Server::Memory(broker) => broker.dead_letters(STREAM, DURABLE),
            Server::Redis(_, broker, _) => {
                broker.dead_letters(STREAM, DURABLE, 1_000).await.unwrap()
            }
        };
        letters.into_iter().map(|letter| letter.reason).collect()
    }

    /// Lets a Redis forget everything.
    pub(crate) async fn forget(&self) {
        let Server::Redis(server, ..) = &self.server else {
            panic!("expected Redis");
        };
        let client = ::redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let flush = ::redis::cmd("FLUSHALL");
        flush.exec_async(&mut connection).await.unwrap();
    }

    /// Takes the broker away for a while, if it is a server.
    pub(crate) async fn outage(&mut self, meanwhile: impl Future<Output = ()>) {
        match &mut self.server {
            Server::Jetstream(server, backend, _) => {
                server.kill9().await;
                meanwhile.await;
                server.restart().await;
                *backend = Backend::connect(&server.url()).await;
            }
            Server::Memory(_) => meanwhile.await,
            Server::Redis(server, ..) => {
                server.kill9().await;
                meanwhile.await;
                server.restart().await;
            }
        }
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = open(&folder).await;
        let table = "CREATE TABLE work (device TEXT, number INTEGER)";
        sqlx::query(table).execute(&pool).await.unwrap();
        Self { pool, folder }
    }

    /// A replica that consumes a durable of the broker at this address.
    pub(crate) async fn replica(
        &self,
        url: &str,
        stream: &str,
        durable: &str,
        handler: &Recorder,
    ) -> Replica {
        let origin = Origin::connect(url).await.unwrap();
        self.serve(origin, Config::new(stream, durable), handler)
            .await
    }

    async fn serve(&self, origin: Origin, config: Config, handler: &Recorder) -> Replica {
        let pool = open(&self.folder).await;
        // Another replica may be writing.
        let inbox = eventually("the inbox is open", async || {
            let inbox = Box::pin(Inbox::open(Pool::Sqlite(pool.clone()))).await;
            inbox.map_err(|error| error.to_string())
        })
        .await;
        let consumer = Consumer::new(origin, config, inbox);
        let consumer = consumer.on("device.property.reported", "1.0", handler.clone());
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
}

pub(crate) async fn api(backend: &Backend, call: &str, body: Value) {
    let subject = format!("$JS.API.{call}");
    let answer = backend.request(&subject, body.to_string()).await;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert!(answer["error"].is_null(), "{answer}");
}

/// Why the server says that it gives a message up, if it does.
fn reason(advisory: &async_nats::Message) -> Option<String> {
    let told: Value = serde_json::from_slice(&advisory.payload).unwrap();
    match told["type"].as_str().unwrap().rsplit('.').next().unwrap() {
        "max_deliver" => Some("max_deliver".to_owned()),
        "terminated" => Some(told["reason"].as_str().unwrap().to_owned()),
        _ => None,
    }
}

async fn open(folder: &TempDir) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("service.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePoolOptions::new().max_connections(1);
    pool.connect_with(options).await.unwrap()
}

/// The bytes of an event.
pub(crate) fn event(id: &str, data: Value) -> String {
    json!({
        "event_id": id, "event_name": "device.property.reported", "event_version": "1.0",
        "event_time": "2026-10-14T08:30:00.123Z", "producer": "jetway",
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "data": data,
    })
    .to_string()
}

pub(crate) struct Replica {
    pub(crate) metrics: Metrics,
    shutdown: CancellationToken,
    task: JoinSet<()>,
}

impl Replica {
    /// Stops it in good order; returns when it is stopped.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
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
    pub(crate) at: Instant,
}

type Behaviour = dyn Fn(&Call) -> Result<(), Failure> + Send + Sync;

/// A handler that writes a row per event, once it may go on, and ends as it is told.
#[derive(Clone)]
pub(crate) struct Recorder {
    calls: Arc<Mutex<Vec<Call>>>,
    behaviour: Arc<Behaviour>,
    /// A permit for each call that may go on.
    pub(crate) gate: Arc<Semaphore>,
}

impl Recorder {
    /// One that handles everything at once.
    pub(crate) fn new() -> Self {
        Self::ending(|_| Ok(()))
    }

    /// One that waits for permits of its gate.
    pub(crate) fn gated() -> Self {
        Self {
            gate: Arc::new(Semaphore::new(0)),
            ..Self::new()
        }
    }

    /// One that ends so, after it has written its row.
    pub(crate) fn ending(
        behaviour: impl Fn(&Call) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            calls: Arc::default(),
            behaviour: Arc::new(behaviour),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) async fn until_calls(&self, count: usize) {
        eventually(&format!("{count} calls"), async || {
            match self.calls().len() >= count {
                true => Ok(()),
                false => Err(format!("{}", self.calls().len())),
            }
        })
        .await;
    }
}

impl Handle for Recorder {
    async fn handle(&self, event: &Event, transaction: &mut Transaction) -> Result<(), Failure> {
        #[derive(serde::Deserialize)]
        struct Data {
            number: u64,
        }
        let Data { number } = event.data()?;
        let device = event.subject.rsplit('.').next().unwrap().to_owned();
        let call = Call {
            device,
            number,
            attempt: event.attempt,
            subject: event.subject.to_string(),
            at: Instant::now(),
        };
        self.calls.lock().unwrap().push(call.clone());
        // Closed, it lets nothing go on any more.
        self.gate.acquire().await?.forget();
        let Transaction::Sqlite(transaction) = transaction else {
            panic!("expected a transaction of SQLite");
        };
        sqlx::query("INSERT INTO work (device, number) VALUES (?, ?)")
            .bind(&call.device)
            .bind(i64::try_from(call.number).unwrap())
            .execute(&mut **transaction)
            .await?;
        (self.behaviour)(&call)
    }
}
