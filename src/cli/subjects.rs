//! `jetway subjects`: what a topic maps to, and why.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;

use crate::config::Config;
use crate::gateway;

/// Arguments of `jetway subjects`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print what a topic maps to and why
    Explain {
        /// An MQTT topic, for example `$thing/up/property/demo/device`
        topic: String,
        /// Configuration file with the operator's own rules
        #[arg(long, env = "JETWAY_CONFIG")]
        config: Option<PathBuf>,
    },
}

/// Prints the explanation.
pub(super) fn run(args: &Args) -> Result<bool> {
    let Command::Explain { topic, config } = &args.command;
    let config = Config::load(config.as_deref(), std::env::vars())?;
    let mapping = gateway::mapping(&config)?;
    writeln!(std::io::stdout(), "{}", mapping.explain(topic))?;
    Ok(true)
}
