//! `jetway check`: reads a configuration as `run` would, and starts nothing.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::config::Config;
use crate::gateway;

/// Arguments of `jetway check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration file (TOML); without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

/// Reports every fault of the configuration, the mapping rules, the stream declarations, the position rules and the keys of
/// secrets.
pub(super) fn run(args: &Args) -> Result<bool> {
    let config = Config::load(args.config.as_deref(), std::env::vars())?;
    let mapping = gateway::mapping(&config)?;
    gateway::watched(&config)?;
    config.catalogue.load().context("[catalogue]")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "configuration is valid")?;
    for stream in gateway::streams(&mapping) {
        writeln!(out, "stream {}: {}", stream.name, stream.config)?;
    }
    for durable in gateway::durables(&mapping) {
        writeln!(out, "durable {}: {}", durable.label(), durable.config)?;
    }
    Ok(true)
}
