//! GPS reports from the stream of uplinks into a real database on this machine: rows, latest positions and outbox rows a second.
//!
//! `cargo bench --bench gps -- --database postgres --reports 200000`
//!
//! The database keeps what it confirms (fsync on), in a temporary folder; the worker is the gateway's own, in this process. Stream,
//! worker and database share the machine; what publishes the outbox does not run.

#[path = "../../tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishAckFuture;
use clap::Parser;
use futures_util::future::try_join_all;
use jetway::config::Config;
use jetway::database::{self, Pool};
use jetway::gateway;
use jetway::gps::store::Tables;
use jetway::gps::{Metrics, Watched, Worker};
use jetway::jetstream::{Bucket, Link, client, provision};
use jetway::outbox::store::{Store, Wake};
use jetway::ownership;
use jetway::tasks::{OnExit, Tasks};
use jetway::telemetry;
use support::{Backend, MariaDb, NatsServer, Postgres, eventually};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Arguments {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// sqlite, postgres or mariadb
    #[arg(long)]
    database: Option<String>,
    /// Messages, a report each
    #[arg(long, default_value_t = 200_000)]
    reports: u64,
    /// Devices that they are of
    #[arg(long, default_value_t = 10_000)]
    devices: u64,
    /// `gps.shards`
    #[arg(long, default_value_t = 1)]
    shards: u32,
    /// `gps.batch_rows_max`
    #[arg(long, default_value_t = 2_000)]
    batch: usize,
}

/// Messages whose acknowledgements are waited for together.
const AT_ONCE: u64 = 2_000;
/// The unit of CPU times in `/proc`: 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A database of the bench's own, and where its processes are at home.
struct Server {
    url: String,
    folder: PathBuf,
    _postgres: Option<Postgres>,
    _mariadb: Option<MariaDb>,
}

impl Server {
    async fn start(kind: &str, folder: &Path) -> Result<Self> {
        let mut server = Self {
            url: format!("sqlite:{}", folder.join("gps.db").display()),
            folder: folder.to_owned(),
            _postgres: None,
            _mariadb: None,
        };
        match kind {
            "sqlite" => {}
            "postgres" => {
                let postgres = Postgres::start_durable().await;
                server.url = postgres.database("gps").await;
                server.folder = postgres.folder().to_owned();
                server._postgres = Some(postgres);
            }
            "mariadb" => {
                let mariadb = MariaDb::start_durable().await;
                server.url = mariadb.database("gps").await;
                server.folder = mariadb.folder().to_owned();
                server._mariadb = Some(mariadb);
            }
            other => bail!("--database: found {other:?}, expected sqlite, postgres or mariadb"),
        }
        Ok(server)
    }

    /// CPU time of all its processes.
    fn cpu(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for entry in fs::read_dir("/proc")?.flatten() {
            let is_own = fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|home| home.starts_with(&self.folder));
            if is_own {
                all += cpu(&entry.path()).unwrap_or_default();
            }
        }
        Ok(all)
    }
}

/// CPU time of a process in user and kernel mode.
fn cpu(process: &Path) -> Result<Duration> {
    let stat = fs::read_to_string(process.join("stat"))?;
    // Behind the name, which may hold anything, the 12th and 13th fields.
    let (_, fields) = stat.rsplit_once(')').context("stat of a process")?;
    let ticks: Vec<u32> = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(TICK * ticks.iter().sum::<u32>())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Some(kind) = arguments.database.as_deref() else {
        // `cargo bench` runs all benches: this one only on request.
        println!(
            "gps: choose a database: cargo bench --bench gps -- --database sqlite | postgres | mariadb"
        );
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let server = Server::start(kind, folder.path()).await?;
    let nats = NatsServer::start().await;
    let config = Config::default();
    let mapping = gateway::mapping(&config)?;
    let link = Link::connect(&client::Config {
        url: nats.url(),
        ..client::Config::default()
    })
    .await?;
    provision::ensure(&link, &gateway::streams(&mapping), false, false).await?;
    let last = fill(&nats, &arguments).await?;
    let pool = Pool::open(&database::Config {
        url: server.url.clone(),
        ..database::Config::default()
    })
    .await?;
    let tables = Tables::new(pool.clone());
    let gps = jetway::gps::Config {
        shards: arguments.shards,
        batch_rows_max: arguments.batch,
        ..config.gps.clone()
    };
    let worker = Worker {
        watched: Arc::new(Watched::load(&gps).map_err(|faults| anyhow::anyhow!("{faults:?}"))?),
        config: gps,
        nodes: Bucket::new(&link, ownership::NODES),
        link,
        mapping: Arc::new(mapping),
        source: "DEVICE_UP".into(),
        node: "bench".into(),
        tables: tables.clone(),
        outbox: Store::new(pool),
        wake: Wake::default(),
        metrics: Metrics::default(),
    };
    let before = (Instant::now(), cpu(Path::new("/proc/self"))?, server.cpu()?);
    let stop = CancellationToken::new();
    let tasks = Tasks::new(stop.clone());
    for shard in 0..arguments.shards {
        tasks.spawn(
            "worker",
            OnExit::Log,
            worker.clone().run(shard, stop.clone()),
        );
    }
    loop {
        let done = eventually("the worker moves on", async || {
            done(&tables, &arguments).await
        })
        .await;
        if done >= last {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    report(&arguments, kind, &server, before)?;
    stop.cancel();
    tasks.wait().await;
    Ok(())
}

/// Up to where everything is written.
async fn done(tables: &Tables, arguments: &Arguments) -> Result<u64, String> {
    let cursors = tables.cursors().await.map_err(|error| error.to_string())?;
    match cursors.len() == arguments.shards as usize {
        true => Ok(cursors
            .iter()
            .map(|cursor| cursor.sequence)
            .min()
            .unwrap_or(0)
            .unsigned_abs()),
        false => Err(format!("{} cursors", cursors.len())),
    }
}

/// Stores the reports as a gateway does; gives the last sequence.
async fn fill(nats: &NatsServer, arguments: &Arguments) -> Result<u64> {
    let backend = Backend::connect(&nats.url()).await;
    let begun = Instant::now();
    let now_ms = telemetry::now_unix_ms();
    let mut last = 0;
    for start in (0..arguments.reports).step_by(usize::try_from(AT_ONCE)?) {
        let mut waiting: Vec<PublishAckFuture> = Vec::new();
        for number in start..(start + AT_ONCE).min(arguments.reports) {
            let at_ms = now_ms - arguments.reports + number;
            let latitude = 45.0 + f64::from(u32::try_from(number)?) / 1e7;
            let payload = format!(
                r#"{{"method":"report","msgToken":"t{number}","timestamp":{at_ms},"params":{{"latitude":{latitude},"longitude":13.7142099626,"altitude":211.15,"speed":12.5,"course":271.3,"satellites":9,"hdop":0.9}}}}"#
            );
            let mut headers = HeaderMap::new();
            headers.insert("Jw-Type", "property");
            headers.insert("Jw-Ts", now_ms.to_string());
            let subject = format!("device.up.mqtt.thing.bench.d{}", number % arguments.devices);
            let publish = backend
                .jetstream
                .publish_with_headers(subject, headers, payload.into());
            waiting.push(publish.await?);
        }
        let acks = try_join_all(waiting.into_iter().map(PublishAckFuture::into_future)).await?;
        last = acks.iter().map(|ack| ack.sequence).max().unwrap_or(last);
    }
    println!(
        "{} uplinks stored in {:.1?}",
        arguments.reports,
        begun.elapsed()
    );
    Ok(last)
}

fn report(
    arguments: &Arguments,
    kind: &str,
    server: &Server,
    (begun, own, theirs): (Instant, Duration, Duration),
) -> Result<()> {
    let elapsed = begun.elapsed();
    let count = f64::from(u32::try_from(arguments.reports)?);
    let per = |spent: Duration| spent.as_secs_f64() * 1e6 / count;
    let own = per(cpu(Path::new("/proc/self"))?.saturating_sub(own));
    let theirs = per(server.cpu()?.saturating_sub(theirs));
    let theirs = match kind {
        "sqlite" => String::new(),
        _ => format!(", of the database {theirs:.1} us"),
    };
    println!(
        "{kind}: {:.0} reports/s with latest positions and outbox rows ({} devices, {} shards); CPU per report: of the worker {own:.1} us{theirs}",
        count / elapsed.as_secs_f64(),
        arguments.devices,
        arguments.shards,
    );
    Ok(())
}
