//! `jetway run`: the gateway against servers that already run.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::gateway::Gateway;
use crate::net::Bound;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;

/// Arguments of `jetway run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration file (TOML); without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Print one JSON line with the addresses once everything is ready
    #[arg(long)]
    json: bool,
}

/// The line that says where everything is.
#[derive(Debug, Serialize)]
pub(super) struct Ready<'a> {
    /// The plain TCP listener; none if it is switched off.
    pub(super) mqtt: Option<SocketAddr>,
    /// The further ones, in the order of the configuration.
    pub(super) listeners: &'a [Bound],
    pub(super) nats: &'a str,
    pub(super) http: String,
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nats_pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<serde_json::Value>,
}

/// Runs until a signal, then drains; whether everything ended well.
pub(super) async fn run(args: Args) -> Result<bool> {
    let config = Config::load(args.config.as_deref(), std::env::vars())?;
    telemetry::init(&config.log);
    let stop = stop_on_signal()?;
    let gateway = Gateway::start(&config, stop).await?;
    if args.json {
        let ready = Ready {
            mqtt: gateway.mqtt,
            listeners: &gateway.listeners,
            nats: &config.nats.url,
            http: gateway.http.to_string(),
            pid: std::process::id(),
            nats_pid: None,
            device: None,
        };
        println!("{}", serde_json::to_string(&ready)?);
    }
    Ok(gateway.run().await)
}

/// A token that the first SIGTERM or SIGINT cancels; the second one exits with status 1 at once.
pub(super) fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let first = stop.clone();
    Tasks::new(stop.clone()).spawn("signals", OnExit::Log, async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first.is_cancelled() {
                eprintln!("jetway: second signal, leaving at once");
                std::process::exit(1);
            }
            first.cancel();
        }
    });
    Ok(stop)
}
