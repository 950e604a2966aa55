//! The commands and their exit status.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use super::{
    bans, binding, certificate, check, dev, device, dlq, gps, hash, jobs, outbox, product, run,
    send, streams, subjects, tail, trace,
};
use crate::config::Faults;

/// The exit status for a configuration that cannot be used (`EX_CONFIG` of sysexits).
const EXIT_CONFIG: u8 = 78;

/// Jetway: an IoT device message gateway for NATS JetStream.
#[derive(Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a gateway with its own nats-server and database on this machine
    Dev(dev::Args),
    /// Run a gateway against servers that already run
    Run(run::Args),
    /// Check a configuration and report all faults
    Check(check::Args),
    /// Add, show, change and remove devices, print their credentials
    Device(device::Args),
    /// Add, list and remove products
    Product(product::Args),
    /// Say by which certificates devices are known
    Certificate(certificate::Args),
    /// Say which gateway device acts for which sub-devices
    Binding(binding::Args),
    /// Hash a password from standard input, for the file of [auth.password]
    Hash,
    /// List who is blocked, block, lift
    Bans(bans::Args),
    /// Look at the mapping between topics and subjects
    Subjects(subjects::Args),
    /// Compare streams and durables with their declarations
    Streams(streams::Args),
    /// List, show, replay and drop dead letters
    Dlq(dlq::Args),
    /// Tell where a device is, write its reports again from the stream
    Gps(gps::Args),
    /// List, show, replay and purge rows of the outbox
    Outbox(outbox::Args),
    /// List and run jobs, print what their runs said
    Jobs(jobs::Args),
    /// Print messages of a NATS subject as they come
    Tail(tail::Args),
    /// Tell where a device's message is: stored, its events, dead letters, replies
    Trace(trace::Args),
    /// Send a stored message to a device
    Send(send::Args),
    /// Print the path of a usable nats-server; gets one if there is none
    NatsServer,
}

async fn nats_server() -> Result<bool> {
    let binary = dev::nats_server::locate(&dev::nats_server::default_cache_dir()).await?;
    println!("{}", binary.display());
    Ok(true)
}

/// Runs a command to its end; what went wrong is on stderr.
pub async fn execute(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Dev(args) => Box::pin(dev::run(args)).await,
        Command::Run(args) => Box::pin(run::run(args)).await,
        Command::Check(args) => check::run(&args),
        Command::Device(args) => Box::pin(device::run(args)).await,
        Command::Product(args) => Box::pin(product::run(args)).await,
        Command::Certificate(args) => Box::pin(certificate::run(args)).await,
        Command::Binding(args) => Box::pin(binding::run(args)).await,
        Command::Hash => hash::run(),
        Command::Bans(args) => bans::run(args).await,
        Command::Subjects(args) => subjects::run(&args),
        Command::Streams(args) => streams::run(args).await,
        Command::Dlq(args) => Box::pin(dlq::run(args)).await,
        Command::Gps(args) => Box::pin(gps::run(args)).await,
        Command::Outbox(args) => Box::pin(outbox::run(args)).await,
        Command::Jobs(args) => Box::pin(jobs::run(args)).await,
        Command::Tail(args) => tail::run(args).await,
        Command::Trace(args) => Box::pin(trace::run(args)).await,
        Command::Send(args) => send::run(args).await,
        Command::NatsServer => nats_server().await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("jetway: {error:#}");
            match error.is::<Faults>() {
                true => ExitCode::from(EXIT_CONFIG),
                false => ExitCode::FAILURE,
            }
        }
    }
}
