//! Starts everything in its order, says where it is, and stops it in the reverse order.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;

use super::nats_server::{self, NatsServer, Supervisor};
use super::{demo, seed};
use crate::cli::run::{Ready, stop_on_signal};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;

/// Arguments of `jetway dev`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Folder for the stream store, the database and logs
    #[arg(long, default_value = ".jetway")]
    state_dir: PathBuf,
    /// Port for devices; 0 takes any free one
    #[arg(long, default_value_t = 1883)]
    mqtt_port: u16,
    /// Port of the nats-server; 0 takes any free one
    #[arg(long, default_value_t = 4222)]
    nats_port: u16,
    /// Port of the HTTP endpoints; 0 takes any free one
    #[arg(long, default_value_t = 8080)]
    http_port: u16,
    /// Run so many simulated devices that report properties and drive recorded tracks
    #[arg(long, default_value_t = 0)]
    demo: usize,
    /// Print one JSON line once everything is ready, instead of the page
    #[arg(long)]
    json: bool,
}

/// Runs until Ctrl-C or SIGTERM; the gateway drains first, the nats-server stops last.
pub(in crate::cli) async fn run(args: Args) -> Result<bool> {
    let mut config = Config::load(None, std::env::vars())?;
    telemetry::init(&config.log);
    let stop = stop_on_signal()?;
    check_port("--mqtt-port", args.mqtt_port)?;
    check_port("--nats-port", args.nats_port)?;
    check_port("--http-port", args.http_port)?;
    std::fs::create_dir_all(&args.state_dir)
        .with_context(|| format!("--state-dir {}: cannot be made", args.state_dir.display()))?;
    let server = start_nats(&args).await?;
    let (nats_url, nats_pid) = (server.url(), server.pid());

    config.nats.url = nats_url.clone();
    config.nats.apply = true;
    config.mqtt.listen = Some(SocketAddr::from(([127, 0, 0, 1], args.mqtt_port)));
    config.http.listen = SocketAddr::from(([127, 0, 0, 1], args.http_port));
    config.database.url = format!("sqlite:{}", args.state_dir.join("devices.db").display());
    let seeds = seed::seed(&config.database, args.demo).await?;

    let server_stop = CancellationToken::new();
    let servers = Tasks::new(stop.clone());
    let supervisor = Supervisor::new(server).run(server_stop.clone());
    servers.spawn("nats-server", OnExit::Shutdown, supervisor);
    let drained = match Gateway::start(&config, stop.clone()).await {
        Ok(gateway) => {
            let mqtt = gateway.mqtt.context("the plain listener is missing")?;
            let demo = demo::start(&seeds.fleet, mqtt, &stop);
            if args.json {
                let ready = Ready {
                    mqtt: gateway.mqtt,
                    listeners: &gateway.listeners,
                    nats: &nats_url,
                    http: gateway.http.to_string(),
                    pid: std::process::id(),
                    nats_pid: Some(nats_pid),
                    device: Some(seeds.device.json()),
                };
                println!("{}", serde_json::to_string(&ready)?);
            } else {
                println!("{}", page(mqtt, gateway.http, &nats_url, &seeds.device));
            }
            let drained = gateway.run().await;
            demo.wait().await;
            Ok(drained)
        }
        Err(error) => {
            stop.cancel();
            Err(error)
        }
    };
    server_stop.cancel();
    servers.wait().await;
    drained
}

/// Finds a port that is taken before anything is started.
fn check_port(option: &str, port: u16) -> Result<()> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port));
    listener.with_context(|| {
        format!("{option} {port}: expected a free port; `{option} 0` takes any free one")
    })?;
    Ok(())
}

async fn start_nats(args: &Args) -> Result<NatsServer> {
    let binary = nats_server::locate(&nats_server::default_cache_dir()).await?;
    let server = NatsServer::start(nats_server::Options {
        binary,
        state_dir: args.state_dir.join("nats"),
        port: args.nats_port,
    })
    .await?;
    Ok(server)
}

/// What a newcomer does next, with lines to paste.
fn page(mqtt: SocketAddr, http: SocketAddr, nats: &str, device: &seed::Seed) -> String {
    let (host, port) = (mqtt.ip(), mqtt.port());
    let seed::Seed {
        product,
        name,
        credentials,
        ..
    } = device;
    format!(
        "
Jetway is running: MQTT {mqtt}, NATS {nats}, HTTP http://{http} (/readyz, /metrics)

1. Watch what devices send, in a second terminal. A report comes twice, as it is stored and live on its handle's subject:
   {jetway} tail 'device.up.>' --nats {nats}

2. Report a property as the demo device, in a third one (mosquitto_pub is in the package mosquitto-clients):
   mosquitto_pub -h {host} -p {port} -q 1 -i '{client_id}' \\
     -u '{username}' \\
     -P '{password}' \\
     -t '$thing/up/property/{product}/{name}' \\
     -m '{{\"method\":\"report\",\"msgToken\":\"1\",\"params\":{{\"temp\":21.5}}}}'

3. Listen as the device, there:
   mosquitto_sub -h {host} -p {port} -q 1 -i '{client_id}' \\
     -u '{username}' \\
     -P '{password}' \\
     -t '$thing/down/+/{product}/{name}' -v

4. Send it a command, in a fourth one:
   {jetway} send {product} {name} '{{\"method\":\"control\",\"msgToken\":\"2\",\"params\":{{\"power\":1}}}}' --nats {nats}

A device has one connection: a second one takes over. Ctrl-C stops everything.
",
        jetway = program(),
        client_id = credentials.client_id,
        username = credentials.username,
        password = credentials.password,
    )
}

/// This program, as a shell in the same folder finds it.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("jetway"));
    let folder = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(folder).unwrap_or(&path);
    path.display().to_string()
}
