//! Starts everything in its order, says where it is, and stops it in the reverse order.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio_util::sync::CancellationToken;

use super::nats_server::{self, NatsServer, Supervisor};
use super::page::Places;
use super::{demo, seed};
use crate::cli::run::{Ready, stop_on_signal};
use crate::config::Config;
use crate::gateway::Gateway;
use crate::mapping::Profile;
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
    /// Whose topics and logins: device, or open for any client and any topic [default: JETWAY_PROFILE, else device]
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
    /// Run so many simulated devices that report properties and drive recorded tracks
    #[arg(long, default_value_t = 0)]
    demo: usize,
    /// Print one JSON line once everything is ready, instead of the page
    #[arg(long)]
    json: bool,
}

/// Runs until Ctrl-C or SIGTERM; the gateway drains first, the nats-server stops last.
pub(in crate::cli) async fn run(args: Args) -> Result<bool> {
    let mut config = load(&args)?;
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
    let seeds = match config.profile {
        Profile::Device => Some(seed::seed(&config.database, args.demo).await?),
        Profile::Open => None,
    };

    let server_stop = CancellationToken::new();
    let servers = Tasks::new(stop.clone());
    let supervisor = Supervisor::new(server).run(server_stop.clone());
    servers.spawn("nats-server", OnExit::Shutdown, supervisor);
    let drained = match Gateway::start(&config, stop.clone()).await {
        Ok(gateway) => {
            let mqtt = gateway.mqtt.context("the plain listener is missing")?;
            let fleet = seeds.as_ref().map_or(&[][..], |seeds| &seeds.fleet);
            let demo = demo::start(fleet, mqtt, &stop);
            if args.json {
                let ready = Ready {
                    mqtt: gateway.mqtt,
                    listeners: &gateway.listeners,
                    nats: &nats_url,
                    http: gateway.http.to_string(),
                    pid: std::process::id(),
                    nats_pid: Some(nats_pid),
                    device: seeds.as_ref().map(|seeds| seeds.device.json()),
                };
                println!("{}", serde_json::to_string(&ready)?);
            } else {
                let places = Places {
                    mqtt,
                    http: gateway.http,
                    nats: &nats_url,
                };
                let device = seeds.as_ref().map(|seeds| places.device(&seeds.device));
                println!("{}", device.unwrap_or_else(|| places.open()));
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

/// The configuration of the environment, and the profile that was asked for.
fn load(args: &Args) -> Result<Config> {
    let mut config = Config::load(None, std::env::vars())?;
    if let Some(profile) = args.profile {
        config.set_profile(profile);
    }
    if config.profile == Profile::Open && args.demo > 0 {
        bail!(
            "--demo {}: expected 0 with the open profile, which has no simulated devices",
            args.demo
        );
    }
    Ok(config)
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

/// A profile by its name in the configuration.
fn profile(name: &str) -> Result<Profile, &'static str> {
    match name {
        "device" => Ok(Profile::Device),
        "open" => Ok(Profile::Open),
        _ => Err("expected device or open"),
    }
}
