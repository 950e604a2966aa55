//! `jetway bans`: who is blocked on all nodes, blocking and lifting. It asks the gateways over NATS.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::config::Config;
use crate::jetstream::Link;
use crate::protection::{Answer, Ask, Kind, ask};

/// Arguments of `jetway bans`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List who is blocked: node, kind, value, why, seconds left
    Ls {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        nats: Nats,
    },
    /// Block somebody on all nodes; connections that stand stay
    Add {
        #[command(flatten)]
        whom: Whom,
        /// For how long
        #[arg(long)]
        seconds: u64,
        #[command(flatten)]
        nats: Nats,
    },
    /// Let somebody in again on all nodes; fails if nobody had blocked them
    Lift {
        #[command(flatten)]
        whom: Whom,
        #[command(flatten)]
        nats: Nats,
    },
}

#[derive(Debug, clap::Args)]
struct Whom {
    /// address, username, client_id or device
    kind: Kind,
    /// Which one; a device is PRODUCT/NAME
    value: String,
}

/// How the gateways are reached.
#[derive(Debug, clap::Args, Clone)]
struct Nats {
    /// Configuration file (TOML); without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

impl Nats {
    /// What all gateways say to that; there is at least one.
    async fn ask(&self, question: &Ask) -> Result<Vec<Answer>> {
        let config = Config::load(self.config.as_deref(), std::env::vars())?;
        let answers = ask(&Link::connect(&config.nats).await?, question).await?;
        ensure!(!answers.is_empty(), "no gateway answers");
        Ok(answers)
    }
}

/// Runs the subcommand; whether what was asked for was there to do.
pub(super) async fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Ls { json, nats } => {
            let answers = nats.ask(&Ask::Bans).await?;
            print(&answers, json, &mut io::stdout().lock())?;
            Ok(true)
        }
        Command::Add {
            whom: Whom { kind, value },
            seconds,
            nats,
        } => {
            let question = Ask::Ban {
                kind,
                value,
                seconds,
            };
            let nodes = nats.ask(&question).await?.len();
            eprintln!("blocked on {nodes} nodes");
            Ok(true)
        }
        Command::Lift {
            whom: Whom { kind, value },
            nats,
        } => {
            let answers = nats.ask(&Ask::Lift { kind, value }).await?;
            let lifted = answers.iter().filter(|answer| answer.lifted).count();
            eprintln!("lifted on {lifted} nodes");
            Ok(lifted > 0)
        }
    }
}

fn print(answers: &[Answer], json: bool, out: &mut impl Write) -> Result<()> {
    for Answer { node, bans, .. } in answers {
        for ban in bans {
            let (kind, seconds) = (ban.kind.as_str(), ban.remaining_ms.div_ceil(1_000));
            match json {
                true => writeln!(out, "{}", json!({ "node": node, "ban": ban }))?,
                false => {
                    let why = ban.why.as_str();
                    writeln!(out, "{node}\t{kind}\t{}\t{why}\t{seconds} s", ban.value)?;
                }
            }
        }
    }
    Ok(())
}
