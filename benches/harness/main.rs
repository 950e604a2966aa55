//! `jetway-bench`: load on an MQTT server and the NATS behind it, what it holds, and what it costs.
//!
//! A scenario runs against servers that it starts itself (`--target jetway`, `nats-mqtt`, `mosquitto`, `rumqttd`) or against any that
//! run (`--mqtt`, `--nats`, `--watch name=pid`). README.md beside this file says how. Client and servers usually share the
//! machine, so compare CPU time per message, and targets within one run (`--target a --target b --rounds 3`).

mod arguments;
mod check;
mod client;
mod fleet;
mod histogram;
mod page;
mod payload;
mod process;
mod report;
mod scenario;
mod servers;
mod target;

use anyhow::{Result, bail};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use arguments::Arguments;
use report::{Comparison, Report};
use target::Target;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    // What was started ends with its handle, so an interrupted run leaves nothing behind.
    tokio::select! {
        done = Box::pin(all(&arguments)) => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn all(arguments: &Arguments) -> Result<()> {
    let mut comparison = Comparison::default();
    for round in 1..=arguments.rounds {
        // In turn, A B A B: what else the machine does meets all of them.
        for name in arguments.targets() {
            let target = Target::start(name, arguments).await?;
            let report = run(&target, arguments, round).await?;
            report.print();
            comparison.add(report);
        }
    }
    comparison.print();
    if let Some(file) = &arguments.json {
        std::fs::write(file, comparison.json()?)?;
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, page::render(&comparison))?;
    }
    comparison.verdict()
}

async fn run(target: &Target, arguments: &Arguments, round: u32) -> Result<Report> {
    let measured = scenario::run(target, arguments).await?;
    let checked = match measured.published.is_empty() {
        true => None,
        false => check::stored(target, &measured.published).await?,
    };
    Ok(Report::new(target, arguments, round, measured, checked))
}
