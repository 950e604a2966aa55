//! `jetway outbox`: rows of the outbox listed, shown, replayed, purged, counted.
//!
//! It works on the database alone; no gateway has to run.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::config::Config;
use crate::database::Pool;
use crate::outbox::store::{Action, Filter, Listed, Store};
use crate::telemetry;

/// Rows that are asked for at once.
const PAGE: usize = 500;
/// Rows that a dry run tells of.
const DRY_MAX: usize = 100_000;

/// Arguments of `jetway outbox`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List rows, oldest first
    Ls {
        #[command(flatten)]
        conditions: Conditions,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Only those behind this number
        #[arg(long, default_value_t = 0)]
        after: i64,
        #[command(flatten)]
        form: Form,
    },
    /// Show a row with its headers and payload
    Show {
        /// Its number
        id: i64,
        #[command(flatten)]
        form: Form,
    },
    /// Give dead rows all their attempts anew
    Replay(Change),
    /// Remove dead and published rows
    Purge(Change),
    /// Count rows by their state
    Stats {
        #[command(flatten)]
        form: Form,
    },
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
    /// Configuration file, for its database; without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

/// Which rows; all conditions must hold.
#[derive(Debug, clap::Args)]
struct Conditions {
    /// With this number; may be given several times
    #[arg(long)]
    id: Vec<String>,
    /// In this state: pending, sending, published, dead
    #[arg(long)]
    status: Option<String>,
    /// With this identity of its event
    #[arg(long)]
    event_id: Option<String>,
    /// With this event, for example gps.report.created
    #[arg(long)]
    event: Option<String>,
    /// About this: PRODUCT/NAME of a device
    #[arg(long)]
    aggregate: Option<String>,
    /// Written at this time or later: RFC 3339, or an age such as 90s, 10m, 2h, 7d
    #[arg(long)]
    since: Option<String>,
    /// Written before this time
    #[arg(long)]
    until: Option<String>,
}

impl Conditions {
    fn filter(&self) -> Result<Filter> {
        let mut filter = Filter::default();
        let now = telemetry::now_unix_ms();
        let ids = self.id.iter().map(|id| ("id", id));
        let others = [
            ("status", &self.status),
            ("event_id", &self.event_id),
            ("event", &self.event),
            ("aggregate", &self.aggregate),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let others = others
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)));
        for (key, value) in ids.chain(others) {
            filter
                .set(key, value, now)
                .map_err(|fault| anyhow!("--{}", fault.replacen('_', "-", 1)))?;
        }
        Ok(filter)
    }
}

impl Form {
    async fn store(&self) -> Result<Store> {
        let config = Config::load(self.config.as_deref(), std::env::vars())?;
        let pool = Pool::open(&config.database).await;
        let store = Store::open(pool.context("database of the outbox")?).await;
        Ok(store?)
    }
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(args: Args) -> Result<bool> {
    let mut out = io::BufWriter::new(io::stdout());
    match args.command {
        Command::Ls {
            conditions,
            mut limit,
            mut after,
            form,
        } => {
            let (store, filter) = (form.store().await?, conditions.filter()?);
            while limit > 0 {
                let rows = store.list(&filter, after, limit.min(PAGE)).await?;
                let Some(last) = rows.last() else {
                    break;
                };
                after = last.id;
                limit -= rows.len();
                print(&rows, &form, &mut out)?;
            }
        }
        Command::Show { id, form } => {
            let shown = form.store().await?.show(id).await?;
            if form.json {
                writeln!(out, "{}", shown.described())?;
            } else {
                print(std::slice::from_ref(&shown.listed), &form, &mut out)?;
                for (name, value) in &shown.headers {
                    writeln!(out, "{name}: {value}")?;
                }
                if let Some(error) = &shown.listed.error {
                    writeln!(out, "# {error}")?;
                }
                writeln!(out)?;
                out.write_all(&shown.payload)?;
                writeln!(out)?;
            }
        }
        Command::Replay(change) => change.make(Action::Replay, &mut out).await?,
        Command::Purge(change) => change.make(Action::Purge, &mut out).await?,
        Command::Stats { form } => {
            let stats = form.store().await?.stats().await?;
            if form.json {
                writeln!(out, "{}", serde_json::to_string(&stats)?)?;
            } else {
                let oldest = stats.oldest_pending_ms.unwrap_or(0) / 1_000;
                writeln!(out, "pending\t{}", stats.pending)?;
                writeln!(out, "sending\t{}", stats.sending)?;
                writeln!(out, "dead\t{}", stats.dead)?;
                writeln!(out, "oldest\t{oldest} s")?;
            }
        }
    }
    out.flush()?;
    Ok(true)
}

fn print(rows: &[Listed], form: &Form, out: &mut impl Write) -> Result<()> {
    for row in rows {
        if form.json {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
            continue;
        }
        let Listed {
            id,
            created,
            status,
            event,
            aggregate,
            attempts,
            subject,
            ..
        } = row;
        writeln!(
            out,
            "{id}\t{created}\t{status}\t{event}\t{aggregate}\t{attempts}\t{subject}"
        )?;
    }
    Ok(())
}

impl Change {
    async fn make(&self, action: Action, out: &mut impl Write) -> Result<()> {
        let filter = self.conditions.filter()?;
        if filter.is_empty() && !self.all {
            bail!("expected a condition, or --all");
        }
        let store = self.form.store().await?;
        let mut done = 0;
        loop {
            let rows = match self.dry_run {
                true => store.meant(action, &filter, DRY_MAX).await?,
                false => store.act(action, &filter, PAGE).await?,
            };
            done += rows.len();
            if self.dry_run || self.form.json {
                print(&rows, &self.form, out)?;
            }
            if self.dry_run || rows.len() < PAGE {
                break;
            }
        }
        let would = if self.dry_run { "would be " } else { "" };
        eprintln!("{done} {would}{}", action.done());
        Ok(())
    }
}
