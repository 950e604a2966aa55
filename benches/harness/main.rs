//! `jetway-bench`: load on an MQTT server and the NATS behind it, what it holds, and what it costs.
//!
//! A scenario runs against servers that it starts itself (`--target jetway`, `nats-mqtt`, `mosquitto`, `rumqttd`) or against any that
//! run (`--mqtt`, `--nats`, `--watch name=pid`). README.md beside this file says how. Client and servers usually share the
//! machine, so compare CPU time per message, and targets within one run (`--target a --target b --rounds 3`).

mod arguments;
mod check;
mod client;
mod fleet;
mod held;
mod histogram;
mod model;
mod page;
mod payload;
mod process;
mod report;
mod rounds;
mod scenario;
mod servers;
mod target;

use anyhow::{Result, bail};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Command, Scenario};
use report::Comparison;

#[tokio::main]
async fn main() -> Result<()> {
    let command = Command::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    // What was started ends with its handle, so an interrupted run leaves nothing behind.
    tokio::select! {
        done = Box::pin(run(&command)) => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn run(command: &Command) -> Result<()> {
    let (scenario, arguments) = match command {
        Command::Model(costs) => return costs.print(),
        Command::Held(arguments) => {
            let comparison = held::run(arguments).await?;
            return finish(&comparison, arguments);
        }
        Command::FanIn(arguments) => (Scenario::FanIn, arguments),
        Command::Downlink(arguments) => (Scenario::Downlink, arguments),
        Command::Rpc(arguments) => (Scenario::Rpc, arguments),
        Command::Storm(arguments) => (Scenario::Storm, arguments),
        Command::Idle(arguments) => (Scenario::Idle, arguments),
        Command::Fleet(arguments) => (Scenario::Fleet, arguments),
    };
    let comparison = rounds::run(scenario, arguments).await?;
    comparison.print();
    finish(&comparison, arguments)
}

/// Writes what is to be written; an error if a stream has not what was acknowledged.
fn finish(comparison: &Comparison, arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.json {
        std::fs::write(file, comparison.json()?)?;
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, page::render(comparison))?;
    }
    comparison.verdict()
}
