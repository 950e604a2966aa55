//! Memory of the gateway per idle connection, at several numbers of connections, and what is left when all have gone.

use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::process::resident_bytes;
use crate::servers::Servers;

/// CONNECTs under way at once.
const CONNECTS: usize = 100;
/// Numbers of connections at which memory is read.
const STEPS: usize = 4;
/// Memory is quiet when it has moved less than this in [`QUIET_LOOKS`] looks.
const QUIET_BYTES: f64 = 64.0 * 1024.0;
const QUIET_LOOKS: usize = 4;
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const QUIET_WITHIN: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Authenticated connections in the end
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
}

/// What the gateway holds.
#[derive(Clone, Copy)]
struct Memory {
    heap: f64,
    resident: f64,
}

impl Memory {
    fn print(&self, when: &str) {
        const MEBIBYTE: f64 = 1024.0 * 1024.0;
        let (heap, resident) = (self.heap / MEBIBYTE, self.resident / MEBIBYTE);
        println!("{when}: heap {heap:.1} MiB, RSS {resident:.1} MiB");
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let servers = Servers::start(arguments.connections + CONNECTS).await?;
    // What the first logins bring to life (buffers, pools, tables) is not a connection's.
    let mut clients = connect(&servers, 0, CONNECTS).await?;
    let before = quiet(&servers, clients.len(), clients.len()).await?;
    before.print("before");
    println!("\nconnections  heap bytes each  RSS bytes each");
    for step in 1..=STEPS {
        let goal = arguments.connections * step / STEPS;
        let missing = goal + CONNECTS - clients.len();
        clients.extend(connect(&servers, clients.len(), missing).await?);
        let now = quiet(&servers, clients.len(), clients.len()).await?;
        let each = |now: f64, before: f64| (now - before) / goal as f64;
        println!(
            "{goal:>11}  {:>15.0}  {:>14.0}",
            each(now.heap, before.heap),
            each(now.resident, before.resident)
        );
    }
    let events = clients.len() * 2;
    drop(clients);
    println!();
    quiet(&servers, 0, events).await?.print("all gone");
    Ok(())
}

async fn connect(servers: &Servers, from: usize, count: usize) -> Result<Vec<Client>> {
    let credentials = servers.credentials.iter().skip(from).take(count);
    stream::iter(credentials)
        .map(|credentials| Client::connect(servers.gateway.mqtt, credentials))
        .buffer_unordered(CONNECTS)
        .try_collect()
        .await
}

/// Waits until so many connections are live, so many status events are stored, and memory does not move any more.
async fn quiet(servers: &Servers, connections: usize, events: usize) -> Result<Memory> {
    let deadline = Instant::now() + QUIET_WITHIN;
    let mut looks: Vec<Memory> = Vec::new();
    while Instant::now() < deadline {
        let metrics = servers.metrics().await?;
        let now = Memory {
            heap: metrics.get("jetway_process_heap_bytes")?,
            resident: resident_bytes(servers.gateway.pid)?,
        };
        let settled = metrics.get("jetway_connections")? == connections as f64
            && metrics.get("jetway_status_stream_stored_total")? == events as f64
            && metrics.get("jetway_application_stream_stored_total")? == events as f64;
        let still = |look: &Memory| {
            (look.heap - now.heap).abs() < QUIET_BYTES
                && (look.resident - now.resident).abs() < QUIET_BYTES
        };
        if !settled || !looks.iter().all(still) {
            looks.clear();
        }
        looks.push(now);
        if looks.len() > QUIET_LOOKS {
            return Ok(now);
        }
        sleep(LOOK_INTERVAL).await;
    }
    bail!("memory did not come to rest within {QUIET_WITHIN:?}")
}
