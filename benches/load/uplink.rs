//! A closed loop of QoS 1 messages: every device keeps its window full until the time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use jetway::mqtt::{Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::process::cpu_time;
use crate::servers::{PRODUCT, Servers};

#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Arguments {
    /// Devices
    #[arg(long, default_value_t = 1_000)]
    connections: usize,
    /// Messages of each device that wait for their PUBACK
    #[arg(long, default_value_t = 16)]
    window: u16,
    /// Bytes of each message's payload
    #[arg(long, default_value_t = 256)]
    payload: usize,
    /// For how long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let servers = Arc::new(Servers::start(arguments.connections).await?);
    let payload = Bytes::from(vec![b'x'; arguments.payload]);
    let mut clients = Vec::with_capacity(arguments.connections);
    for credentials in &servers.credentials {
        clients.push(Client::connect(servers.gateway.mqtt, credentials).await?);
    }
    let before = Usage::of(&servers).await?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(arguments.seconds);
    let mut devices = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        let topic = format!("$thing/up/property/{PRODUCT}/device{number}");
        let payload = payload.clone();
        devices.spawn(async move { publish(client, &topic, payload, arguments.window, end).await });
    }
    let mut latencies = Vec::new();
    let mut clients = Vec::new();
    while let Some(device) = devices.join_next().await {
        let (client, measured) = device??;
        clients.push(client);
        latencies.extend(measured);
    }
    let elapsed = begun.elapsed();
    let after = Usage::of(&servers).await?;
    report(latencies, elapsed, &before, &after, &servers).await
}

/// CPU times and counts at one moment.
struct Usage {
    gateway: Duration,
    nats: Duration,
    client: Duration,
    batches: f64,
}

impl Usage {
    async fn of(servers: &Servers) -> Result<Self> {
        Ok(Self {
            gateway: cpu_time(servers.gateway.pid)?,
            nats: cpu_time(servers.nats.pid())?,
            client: cpu_time(std::process::id())?,
            batches: (servers.metrics().await?).get("jetway_uplink_stream_batches_total")?,
        })
    }
}

/// Publishes until `end`, then waits for what is open; the time from each PUBLISH to its PUBACK.
async fn publish(
    mut client: Client,
    topic: &str,
    payload: Bytes,
    window: u16,
    end: Instant,
) -> Result<(Client, Vec<Duration>)> {
    let mut packet = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: None,
        properties: PublishProperties::default(),
        payload,
    };
    let mut sent = vec![Instant::now(); usize::from(window)];
    let mut latencies = Vec::new();
    for id in 1..=window {
        packet.packet_id = PacketId::new(id);
        client.send(&Packet::Publish(packet.clone()))?;
    }
    client.flush().await?;
    let mut open = window;
    while open > 0 {
        let mut next = Some(client.next().await?);
        let now = Instant::now();
        while let Some(answer) = next {
            let Packet::Puback(puback) = answer else {
                bail!("expected PUBACK, found {answer:?}");
            };
            ensure!(puback.reason == ReasonCode::Success, "found {puback:?}");
            let id = puback.packet_id;
            let sent = sent.get_mut(usize::from(id.get()) - 1);
            let sent = sent.context("PUBACK for a packet identifier that is not in use")?;
            latencies.push(now - *sent);
            if now < end {
                *sent = now;
                packet.packet_id = Some(id);
                client.send(&Packet::Publish(packet.clone()))?;
            } else {
                open -= 1;
            }
            next = client.buffered()?;
        }
        client.flush().await?;
    }
    Ok((client, latencies))
}

async fn report(
    mut latencies: Vec<Duration>,
    elapsed: Duration,
    before: &Usage,
    after: &Usage,
    servers: &Servers,
) -> Result<()> {
    latencies.sort_unstable();
    let messages = latencies.len();
    let percentile = |percent: usize| latencies.get(messages * percent / 100);
    let (p50, p99) = percentile(50).zip(percentile(99)).context("no message")?;
    let each =
        |before: Duration, after: Duration| (after - before).as_secs_f64() * 1e6 / messages as f64;
    println!(
        "{messages} messages, {:.0}/s, PUBACK p50 {:.1} ms, p99 {:.1} ms, {:.1} messages a batch",
        messages as f64 / elapsed.as_secs_f64(),
        p50.as_secs_f64() * 1e3,
        p99.as_secs_f64() * 1e3,
        messages as f64 / (after.batches - before.batches),
    );
    println!(
        "CPU per message: gateway {:.2} µs, nats-server {:.2} µs (this client {:.2} µs)",
        each(before.gateway, after.gateway),
        each(before.nats, after.nats),
        each(before.client, after.client),
    );
    let stored = servers.stored_uplinks().await?;
    ensure!(
        stored == messages as u64,
        "the stream holds {stored} messages, {messages} were acknowledged"
    );
    println!("the stream holds exactly these {stored} messages");
    Ok(())
}
