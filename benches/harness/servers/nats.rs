//! nats-servers with JetStream: one, or a cluster of three where streams have replicas. With their own MQTT, or alone.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use async_nats::jetstream::{self, stream};
use jetway::cli::dev::nats_server::{default_cache_dir, locate};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::certificate::{self, Pair};
use super::process::{LOOK, START_MAX, free_addresses, listening, pid, spawn};
use super::{Running, Started};
use crate::arguments::Arguments;
use crate::target::Naming;

const STREAM: &str = "BENCH";
/// The servers of a cluster.
const CLUSTER: usize = 3;

/// One or three of them.
pub(super) struct Servers {
    /// All of them, separated by commas.
    pub(super) url: String,
    pub(super) watched: Vec<(String, u32)>,
    pub(super) children: Vec<Child>,
}

/// Starts as many as streams of so many replicas need; returns when such a stream can be made. What is in `first` is added to
/// the configuration of the first one.
pub(super) async fn servers(
    folder: &Path,
    replicas: usize,
    first: Option<Value>,
) -> Result<Servers> {
    ensure!(replicas <= CLUSTER, "expected at most {CLUSTER} replicas");
    let count = if replicas > 1 { CLUSTER } else { 1 };
    let addresses = free_addresses(2 * count)?;
    let (clients, routes) = addresses.split_at(count);
    let urls = |all: &[SocketAddr]| {
        all.iter()
            .map(|at| format!("nats://{at}"))
            .collect::<Vec<_>>()
    };
    let program = locate(&default_cache_dir()).await?;
    let mut servers = Servers {
        url: urls(clients).join(","),
        watched: Vec::new(),
        children: Vec::new(),
    };
    for (number, (client, route)) in (1..).zip(clients.iter().zip(routes)) {
        let name = match count {
            1 => "nats-server".to_owned(),
            _ => format!("nats-server-{number}"),
        };
        let mut config = json!({
            "server_name": name,
            "listen": client.to_string(),
            "jetstream": { "store_dir": folder.join(&name) },
        });
        let own = config.as_object_mut().context("an object")?;
        if count > 1 {
            let cluster =
                json!({ "name": "bench", "listen": route.to_string(), "routes": urls(routes) });
            own.insert("cluster".to_owned(), cluster);
        }
        if let Some(Value::Object(first)) = first.as_ref().filter(|_| number == 1) {
            own.extend(first.clone());
        }
        let file = folder.join(format!("{name}.conf"));
        std::fs::write(&file, config.to_string())?;
        let mut child = spawn(program.as_os_str(), &file)?;
        listening(&mut child, &file, *client).await?;
        servers.watched.push((name, pid(&child)?));
        servers.children.push(child);
    }
    create_stream(&servers.url, "PROBE", "probe", replicas).await?;
    connect(&servers.url).await?.delete_stream("PROBE").await?;
    Ok(servers)
}

async fn connect(url: &str) -> Result<jetstream::Context> {
    let urls: Vec<&str> = url.split(',').collect();
    Ok(jetstream::new(async_nats::connect(urls).await?))
}

/// A stream like that of uplinks; a cluster that has just begun needs some attempts.
async fn create_stream(url: &str, name: &str, subject: &str, replicas: usize) -> Result<()> {
    let context = connect(url).await?;
    let config = stream::Config {
        name: name.to_owned(),
        subjects: vec![subject.to_owned()],
        num_replicas: replicas,
        allow_batch_publish: true,
        ..stream::Config::default()
    };
    let deadline = Instant::now() + START_MAX;
    while let Err(error) = context.create_stream(config.clone()).await {
        ensure!(Instant::now() < deadline, "stream {name}: {error}");
        sleep(LOOK).await;
    }
    Ok(())
}

/// nats-servers and a stream, for publishers without MQTT.
pub(super) async fn alone(state: TempDir, replicas: usize) -> Result<Started> {
    let servers = servers(state.path(), replicas, None).await?;
    started(servers, None, None, state, replicas).await
}

/// The first one speaks MQTT, and a stream is bound to the topics.
pub(super) async fn with_mqtt(
    state: TempDir,
    replicas: usize,
    arguments: &Arguments,
) -> Result<Started> {
    let mqtt = *free_addresses(1)?.first().context("an address")?;
    let pair = arguments
        .makes_certificate()
        .then(|| certificate::make(state.path()));
    let pair = pair.transpose()?;
    let own = match &pair {
        Some(Pair {
            certificate, key, ..
        }) => {
            let tls = json!({ "cert_file": certificate, "key_file": key });
            json!({ "mqtt": { "listen": mqtt.to_string(), "tls": tls } })
        }
        None => json!({ "mqtt": { "listen": mqtt.to_string() } }),
    };
    let servers = servers(state.path(), replicas, Some(own)).await?;
    started(servers, Some(mqtt), pair, state, replicas).await
}

async fn started(
    servers: Servers,
    mqtt: Option<SocketAddr>,
    pair: Option<Pair>,
    state: TempDir,
    replicas: usize,
) -> Result<Started> {
    create_stream(&servers.url, STREAM, "bench.>", replicas).await?;
    Ok(Started {
        mqtt,
        certificate: pair.map(|pair| pair.authority),
        nats: Some(servers.url),
        stream: Some(STREAM.to_owned()),
        naming: Naming::Open { prefix: "" },
        watched: servers.watched,
        running: Running {
            _children: servers.children,
            _state: Some(state),
        },
    })
}
