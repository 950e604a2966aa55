//! `jetway dlq`: dead letters listed, shown, replayed, dropped.
//!
//! It works on NATS alone; no gateway has to run.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};

use crate::config::Config;
use crate::dlq::{Action, Filter, Shelf, described};
use crate::event;
use crate::jetstream::{Link, Stored};
use crate::mapping::Letter;
use crate::telemetry;

/// Arguments of `jetway dlq`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List dead letters, oldest first
    Ls {
        #[command(flatten)]
        conditions: Conditions,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Only those behind this number
        #[arg(long, default_value_t = 0)]
        after: u64,
        #[command(flatten)]
        form: Form,
    },
    /// Show a dead letter with its headers and payload
    Show {
        /// Its number
        id: u64,
        #[command(flatten)]
        form: Form,
    },
    /// Send messages again to the durable that gave them up, or to their device, and remove their dead letters
    Replay(Change),
    /// Remove dead letters
    Drop(Change),
}

#[derive(Debug, clap::Args)]
struct Change {
    #[command(flatten)]
    conditions: Conditions,
    /// All of them: needed when there is no condition
    #[arg(long)]
    all: bool,
    /// Change nothing, only tell what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Configuration file, for its NATS server; without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

/// Which dead letters; all conditions must hold.
#[derive(Debug, clap::Args)]
struct Conditions {
    /// With this number; may be given several times
    #[arg(long)]
    id: Vec<String>,
    /// Given up by: durable, downlink, events
    #[arg(long)]
    origin: Option<String>,
    /// Of a durable of this stream
    #[arg(long)]
    stream: Option<String>,
    /// Of this durable
    #[arg(long)]
    durable: Option<String>,
    /// For this reason, for example max_deliveries, terminated, expired
    #[arg(long)]
    reason: Option<String>,
    /// Of this device: PRODUCT/NAME, as in subjects
    #[arg(long)]
    device: Option<String>,
    /// With this original subject, wildcards `*` and `>`
    #[arg(long)]
    subject: Option<String>,
    /// Given up at this time or later: RFC 3339, or an age such as 90s, 10m, 2h, 7d
    #[arg(long)]
    since: Option<String>,
    /// Given up before this time
    #[arg(long)]
    until: Option<String>,
}

impl Conditions {
    fn filter(&self) -> Result<Filter> {
        let mut filter = Filter::default();
        let now = telemetry::now_unix_ms();
        let ids = self.id.iter().map(|id| ("id", id));
        let others = [
            ("origin", &self.origin),
            ("stream", &self.stream),
            ("durable", &self.durable),
            ("reason", &self.reason),
            ("device", &self.device),
            ("subject", &self.subject),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let others = others
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)));
        for (key, value) in ids.chain(others) {
            filter
                .set(key, value, now)
                .map_err(|fault| anyhow!("--{fault}"))?;
        }
        Ok(filter)
    }
}

impl Form {
    async fn shelf(&self) -> Result<Shelf> {
        let config = Config::load(self.config.as_deref(), std::env::vars())?;
        Ok(Shelf::new(&Link::connect(&config.nats).await?))
    }
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(args: Args) -> Result<bool> {
    let mut out = io::BufWriter::new(io::stdout());
    let done = match args.command {
        Command::Ls {
            conditions,
            limit,
            after,
            form,
        } => {
            let mut walk = form
                .shelf()
                .await?
                .walk(conditions.filter()?, after)
                .await?;
            for _ in 0..limit {
                let Some((letter, _)) = walk.next().await? else {
                    break;
                };
                print(&letter, &form, &mut out)?;
            }
            true
        }
        Command::Show { id, form } => {
            let (letter, stored) = form.shelf().await?.at(id).await?;
            match form.json {
                true => writeln!(out, "{}", described(&letter, &stored))?,
                false => show(&letter, &stored, &form, &mut out)?,
            }
            true
        }
        Command::Replay(change) => change.make(Action::Replay, &mut out).await?,
        Command::Drop(change) => change.make(Action::Drop, &mut out).await?,
    };
    out.flush()?;
    Ok(done)
}

fn print(letter: &Letter, form: &Form, out: &mut impl Write) -> Result<()> {
    if form.json {
        writeln!(out, "{}", serde_json::to_string(letter)?)?;
        return Ok(());
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let whose = match &letter.stream {
        Some(stream) => format!("{stream}/{}", text(&letter.durable)),
        None => letter.origin.clone(),
    };
    let at = event::iso8601(letter.at_ms);
    let attempts = letter
        .attempts
        .map_or_else(|| "-".to_owned(), |count| count.to_string());
    let Letter {
        id,
        reason,
        replays,
        ..
    } = letter;
    let subject = text(&letter.subject);
    writeln!(
        out,
        "{id}\t{at}\t{whose}\t{reason}\t{attempts}\t{replays}\t{subject}"
    )?;
    Ok(())
}

fn show(letter: &Letter, stored: &Stored, form: &Form, out: &mut impl Write) -> Result<()> {
    print(letter, form, out)?;
    for (name, value) in stored.message.headers.iter() {
        writeln!(out, "{name}: {value}")?;
    }
    if let Some(why) = &letter.unreplayable {
        writeln!(out, "# {why}")?;
    }
    writeln!(out)?;
    out.write_all(&stored.message.payload)?;
    Ok(writeln!(out)?)
}

impl Change {
    async fn make(&self, action: Action, out: &mut impl Write) -> Result<bool> {
        let filter = self.conditions.filter()?;
        if filter.is_empty() && !self.all {
            bail!("expected a condition, or --all");
        }
        let shelf = self.form.shelf().await?;
        let mut walk = shelf.walk(filter, 0).await?;
        let mut progress = Progress::default();
        while let Some((letter, stored)) = walk.next().await? {
            let outcome = match (self.dry_run, action) {
                (false, _) => {
                    let acted = shelf.act(action, &stored).await;
                    acted.map_err(|error| error.to_string())
                }
                (true, Action::Replay) => letter.unreplayable.clone().map_or(Ok(()), Err),
                (true, Action::Drop) => Ok(()),
            };
            if outcome.is_ok() && (self.dry_run || self.form.json) {
                print(&letter, &self.form, out)?;
            }
            progress.count(letter.id, outcome);
        }
        progress.end(action, self.dry_run);
        Ok(progress.failed == 0)
    }
}

/// What a person sees meanwhile, on standard error.
#[derive(Default)]
struct Progress {
    done: u64,
    failed: u64,
}

impl Progress {
    fn count(&mut self, id: u64, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.done += 1,
            Err(error) => {
                self.failed += 1;
                eprintln!("{id}: {error}");
            }
        }
        if (self.done + self.failed).is_multiple_of(100) && io::stderr().is_terminal() {
            eprint!("\r{} done, {} failed", self.done, self.failed);
        }
    }

    fn end(&self, action: Action, dry_run: bool) {
        let word = match action {
            Action::Replay => "replayed",
            Action::Drop => "dropped",
        };
        let would = if dry_run { "would be " } else { "" };
        let start = if io::stderr().is_terminal() { "\r" } else { "" };
        eprintln!("{start}{} {would}{word}, {} failed", self.done, self.failed);
    }
}
