//! `jetway streams`: what of the declared streams and durables is missing or differs, and making it so.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::config::Config;
use crate::gateway;
use crate::jetstream::Link;
use crate::jetstream::provision::{self, Action, Applied, Change, Floors, Kind};

/// Arguments of `jetway streams`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Tell what would be changed; fails if anything would
    Plan(Form),
    /// Create what is missing and change what differs
    Apply(Form),
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Configuration file (TOML); without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand; whether everything is as declared.
pub(super) async fn run(args: Args) -> Result<bool> {
    let (form, applies) = match args.command {
        Command::Plan(form) => (form, false),
        Command::Apply(form) => (form, true),
    };
    let config = Config::load(form.config.as_deref(), std::env::vars())?;
    let mapping = gateway::mapping(&config)?;
    let (streams, durables) = (gateway::streams(&mapping), gateway::durables(&mapping));
    let link = Link::connect(&config.nats).await?;
    let mut out = io::BufWriter::new(io::stdout());
    let mut good = true;
    if applies {
        let floors = Floors::new(&link);
        for Applied { change, outcome } in
            provision::apply(&link, &streams, &durables, &floors).await?
        {
            let refused = outcome.err().map(|error| error.to_string());
            good &= refused.is_none();
            form.print(&change, refused.as_deref(), &mut out)?;
        }
    } else {
        for change in provision::plan(&link, &streams, &durables).await? {
            good &= change.action == Action::Keep;
            form.print(&change, None, &mut out)?;
        }
    }
    for risk in provision::risks(&streams, &durables) {
        let line = json!({ "retention_risk": risk });
        match form.json {
            true => writeln!(out, "{line}")?,
            false => writeln!(
                out,
                "risk\tstream {} drops at its {:?} what durable {} has not read",
                risk.stream, risk.limit, risk.durable
            )?,
        }
    }
    out.flush()?;
    Ok(good)
}

impl Form {
    fn print(&self, change: &Change, refused: Option<&str>, out: &mut impl Write) -> Result<()> {
        if self.json {
            let mut line = serde_json::to_value(change)?;
            if let (Some(line), Some(refused)) = (line.as_object_mut(), refused) {
                line.insert("refused".to_owned(), refused.into());
            }
            return Ok(writeln!(out, "{line}")?);
        }
        let action = match change.action {
            Action::Create => "create",
            Action::Update => "update",
            Action::Keep => "keep",
        };
        let kind = match change.kind {
            Kind::Stream => "stream",
            Kind::Durable => "durable",
        };
        writeln!(out, "{action}\t{kind}\t{}", change.name)?;
        for found in &change.differences {
            writeln!(out, "\t{}: {} -> {}", found.key, found.actual, found.wanted)?;
        }
        if let Some(refused) = refused {
            writeln!(out, "\trefused: {refused}")?;
        }
        Ok(())
    }
}
