//! The outbox on a real database and a real nats-server on this machine: rows written, relayed, and what a claim costs beside
//! what was published long ago.
//!
//! `cargo bench --bench outbox -- --database postgres --rows 200000 --history 5000000`
//!
//! The databases and the stream keep what they confirm (fsync on), in a temporary folder. Everything shares the machine.

#[path = "../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use futures_util::future::try_join_all;
use jetway::database::{self, Kind, Pool};
use jetway::event::derived_id;
use jetway::jetstream::{Link, client};
use jetway::outbox::publisher::JetStream;
use jetway::outbox::store::{Answer, Enqueue as _, Event, Store, Terms, Wake};
use jetway::outbox::{Config, Metrics, Relay};
use sqlx::AssertSqlSafe;
use support::{Backend, MariaDb, NatsServer, Postgres};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Arguments {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// sqlite, postgres or mariadb
    #[arg(long)]
    database: Option<String>,
    /// Rows that are written and relayed
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Devices that they are of
    #[arg(long, default_value_t = 10_000)]
    devices: u64,
    /// Published rows beside which claims are measured
    #[arg(long, default_value_t = 0)]
    history: u64,
    /// Bytes of each payload
    #[arg(long, default_value_t = 400)]
    payload: usize,
}

/// Rows of one transaction, and transactions at once.
const BATCH: u64 = 500;
const WRITERS: u64 = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let (postgres, mariadb);
    let url = match arguments.database.as_deref() {
        Some("sqlite") => format!("sqlite:{}", folder.path().join("outbox.db").display()),
        Some("postgres") => {
            postgres = Postgres::start_durable().await;
            postgres.database("outbox").await
        }
        Some("mariadb") => {
            mariadb = MariaDb::start_durable().await;
            mariadb.database("outbox").await
        }
        Some(other) => bail!("--database: found {other:?}, expected sqlite, postgres or mariadb"),
        None => {
            // `cargo bench` runs all benches: this one only on request.
            println!(
                "outbox: choose a database: cargo bench --bench outbox -- --database sqlite | postgres | mariadb"
            );
            return Ok(());
        }
    };
    let config = database::Config {
        url,
        connections_max: 10,
        ..database::Config::default()
    };
    let store = Store::open(Pool::open(&config).await?).await?;
    write(&store, &arguments).await?;
    relay(&store, &arguments).await?;
    claims(&store, &arguments, "beside what was relayed").await?;
    if arguments.history > 0 {
        grow(&store, arguments.history).await?;
        claims(&store, &arguments, "beside all of them").await?;
    }
    Ok(())
}

fn event(number: u64, arguments: &Arguments) -> Event {
    let device = number % arguments.devices;
    Event {
        event_id: derived_id(1_700_000_000_000 + number, &[&number.to_be_bytes()]),
        event_type: "gps.report.created".into(),
        event_version: "1.0".into(),
        aggregate_type: "device".into(),
        aggregate_id: format!("p/d{device}").into(),
        subject: format!("gps.report.created.p.d{device}").into(),
        payload: vec![b'x'; arguments.payload].into(),
        headers: jetway::message::Headers::default(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
    }
}

/// Writers that share no device, as workers on shards do.
async fn write(store: &Store, arguments: &Arguments) -> Result<()> {
    let writers = match store.pool().kind() {
        Kind::Sqlite => 1,
        Kind::Postgres | Kind::MySql => WRITERS,
    };
    let begun = Instant::now();
    let writer = async |own: u64| -> Result<()> {
        let numbers: Vec<u64> = (0..arguments.rows)
            .filter(|number| number % writers == own)
            .collect();
        for numbers in numbers.chunks(usize::try_from(BATCH)?) {
            let events: Vec<_> = numbers
                .iter()
                .map(|number| event(*number, arguments))
                .collect();
            let mut transaction = store.pool().begin().await?;
            transaction.enqueue(&events).await?;
            transaction.commit().await?;
        }
        Ok(())
    };
    try_join_all((0..writers).map(writer)).await?;
    rate("written", arguments.rows, begun.elapsed());
    Ok(())
}

async fn relay(store: &Store, arguments: &Arguments) -> Result<()> {
    let server = NatsServer::start().await;
    let backend = Backend::connect(&server.url()).await;
    let stream = serde_json::json!({"name": "GPS", "subjects": ["gps.>"], "allow_direct": true, "duplicate_window": 120_000_000_000_u64});
    backend
        .request("$JS.API.STREAM.CREATE.GPS", stream.to_string())
        .await;
    let nats = client::Config {
        url: server.url(),
        ..client::Config::default()
    };
    let link = Link::connect(&nats).await?;
    let config = Config::default();
    let relay = Relay {
        store: store.clone(),
        publisher: Arc::new(JetStream::new(&link, config.publish_max())),
        config,
        metrics: Metrics::default(),
        wake: Wake::default(),
    };
    let shutdown = CancellationToken::new();
    let begun = Instant::now();
    let empty = async {
        loop {
            let stats = store.stats().await?;
            if stats.pending + stats.sending == 0 {
                return Ok::<_, anyhow::Error>(begun.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let serve = relay.serve(shutdown.clone());
    let took = tokio::select! {
        took = empty => took?,
        () = serve => bail!("the relay ended"),
    };
    let stored = backend.count("GPS").await;
    if stored != arguments.rows {
        bail!("{stored} rows in the stream, expected {}", arguments.rows);
    }
    rate("relayed", arguments.rows, took);
    Ok(())
}

/// A claim of a hundred rows of as many devices, as relays do after a small commit, settled; and a look that finds nothing.
async fn claims(store: &Store, arguments: &Arguments, words: &str) -> Result<()> {
    let terms = Terms {
        rows_max: 1_000,
        shards_max: 16,
        lease: Duration::from_secs(60),
    };
    let policy = jetway::outbox::store::Policy {
        attempts_max: 1,
        backoff: Vec::new(),
        pause: Duration::ZERO,
    };
    let (mut claims, mut looks) = (Vec::new(), Vec::new());
    let base = arguments.rows + jetway::telemetry::now_unix_ms();
    for round in 0..20 {
        let events: Vec<_> = (0..100)
            .map(|number| event(base + round * 100 + number, arguments))
            .collect();
        let mut transaction = store.pool().begin().await?;
        transaction.enqueue(&events).await?;
        transaction.commit().await?;
        loop {
            let begun = Instant::now();
            let Some(claim) = store.claim(&terms).await? else {
                looks.push(begun.elapsed());
                break;
            };
            claims.push(begun.elapsed());
            let stored = vec![Answer::Stored; claim.rows.len()];
            store.settle(&claim, &stored, &policy).await?;
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    println!(
        "a claim {words}: {:?}; a look that finds nothing: {:?}",
        median(&mut claims),
        median(&mut looks)
    );
    Ok(())
}

/// Makes published rows until there are so many.
async fn grow(store: &Store, history: u64) -> Result<()> {
    let id = match store.pool().kind() {
        Kind::Sqlite => "randomblob(16)",
        Kind::Postgres => "gen_random_uuid()",
        Kind::MySql => "UNHEX(REPLACE(UUID(), '-', ''))",
    };
    let columns = "event_type, event_version, aggregate_type, aggregate_id, aggregate, shard, subject, payload, headers, trace_id, \
         status, held, created_at, published_at";
    let mut count = 0;
    while count < history {
        let text = format!(
            "INSERT INTO outbox_event (event_id, {columns}) SELECT {id}, {columns} FROM outbox_event \
             WHERE status = 'published' LIMIT 100000"
        );
        let query = sqlx::raw_sql(AssertSqlSafe(text));
        count += match store.pool() {
            Pool::Sqlite(pool) => query.execute(pool).await?.rows_affected(),
            Pool::Postgres(pool) => query.execute(pool).await?.rows_affected(),
            Pool::MySql(pool) => query.execute(pool).await?.rows_affected(),
        };
    }
    println!("{count} published rows more");
    Ok(())
}

fn rate(what: &str, rows: u64, took: Duration) {
    println!("{what}: {:.0} rows/s", rows as f64 / took.as_secs_f64());
}
