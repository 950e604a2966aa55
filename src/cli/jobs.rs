//! `jetway jobs`: jobs listed, run, and what their runs said.
//!
//! It works on the database, and on NATS for what it publishes; no gateway has to run. A run takes the same lock as everybody's.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::run::stop_on_signal;
use crate::config::Config;
use crate::event;
use crate::gateway::Database;
use crate::jetstream::Link;
use crate::jobs::reports::{history, registry};
use crate::jobs::{Cause, Jobs, Outcome, PARAMS_BYTES_MAX, Registry, Request, Run, Start, Store};
use crate::outbox::store::Wake;
use crate::tasks::Tasks;

/// Lines of a run that are read at once.
const PAGE: i64 = 500;

/// Arguments of `jetway jobs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List jobs, each with its last runs
    Ls {
        /// So many of them
        #[arg(long, default_value_t = 1)]
        runs: i64,
        #[command(flatten)]
        form: Form,
    },
    /// Run a job here and now, unless it runs elsewhere
    Run {
        /// Its exact name
        name: String,
        /// What it is given
        #[arg(long, default_value = "")]
        params: String,
        #[command(flatten)]
        form: Form,
    },
    /// Print what a run said, and what became of it
    Log {
        /// The run
        run: String,
        #[command(flatten)]
        form: Form,
    },
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Configuration file; without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

/// The database of jobs, with its tables.
async fn open(config: &Config) -> Result<(Database, Store)> {
    let database = Database::open(config).await.context("database of jobs")?;
    let store = database.store(config);
    database.migrate(&store).await?;
    Ok((database, store))
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(args: Args) -> Result<bool> {
    let mut out = io::BufWriter::new(io::stdout());
    let done = match args.command {
        Command::Ls { runs, form } => {
            ls(runs, &form, &mut out).await?;
            true
        }
        Command::Run { name, params, form } => {
            let id = run_one(&name, &params, &form).await?;
            log(&id, &form, &mut out).await?
        }
        Command::Log { run, form } => {
            log(&run, &form, &mut out).await?;
            true
        }
    };
    out.flush()?;
    Ok(done)
}

async fn ls(limit: i64, form: &Form, out: &mut impl Write) -> Result<()> {
    let config = form.load()?;
    let (_, store) = open(&config).await?;
    for job in names(&config, &store).iter() {
        if !form.json {
            writeln!(out, "{}\t{}", job.name, job.about)?;
        }
        for run in store.runs(Some(job.name), limit.max(0)).await? {
            print(&run, form, out)?;
        }
    }
    Ok(())
}

/// The jobs without what it takes to run the one that publishes.
fn names(config: &Config, store: &Store) -> Registry {
    let mut all = history(&config.jobs, store, &Wake::default());
    let publish = crate::jobs::Job {
        name: crate::jobs::reports::PUBLISH,
        about: crate::jobs::reports::PUBLISH_ABOUT,
        limit: config.jobs.run_limit(),
        work: std::sync::Arc::new(|_| Box::pin(async { Ok(String::new()) })),
    };
    all.add(publish);
    all
}

/// Runs a job to its end, or to a signal; gives the run.
async fn run_one(name: &str, params: &str, form: &Form) -> Result<String> {
    if params.len() > PARAMS_BYTES_MAX {
        bail!("--params: expected {PARAMS_BYTES_MAX} bytes at most");
    }
    let config = form.load()?;
    let (database, store) = open(&config).await?;
    names(&config, &store).get(name)?;
    let link = Link::connect(&config.nats).await?;
    let relay = database.relay(&config, &link, Wake::default()).await?;
    let jobs = registry(&config.jobs, &store, relay);
    let stop = stop_on_signal()?;
    let node = format!("cli-{}", std::process::id());
    let jobs = Jobs::new(jobs, store, &node, Tasks::new(stop.clone()), stop);
    let request = Request::new(name, params, Cause::Cli);
    let id = request.id.clone();
    match jobs.start(request).await? {
        Start::Started(started) => drop(started.finish().await),
        Start::Busy { run } => bail!("{name} is running: {run}"),
        Start::NotDue { .. } => bail!("{name} is not due"),
    }
    Ok(id)
}

/// Prints a run with its lines: whether it is done.
async fn log(id: &str, form: &Form, out: &mut impl Write) -> Result<bool> {
    let config = form.load()?;
    let (_, store) = open(&config).await?;
    let Some(run) = store.run(id).await? else {
        bail!("no run {id:?} is kept");
    };
    let mut from = 1;
    loop {
        let lines = store.lines(id, from, PAGE).await?;
        let Some(last) = lines.last() else {
            break;
        };
        from = last.number + 1;
        for line in &lines {
            match form.json {
                true => writeln!(out, "{}", serde_json::to_string(line)?)?,
                false => writeln!(out, "{} {}", iso8601(line.at_ms), line.text)?,
            }
        }
    }
    print(&run, form, out)?;
    Ok(run.outcome == Outcome::Done)
}

fn print(run: &Run, form: &Form, out: &mut impl Write) -> Result<()> {
    if form.json {
        writeln!(out, "{}", serde_json::to_string(run)?)?;
        return Ok(());
    }
    let at = iso8601(run.started_ms.unwrap_or(run.queued_ms));
    let outcome = run.outcome.as_str();
    let Run {
        id, cause, message, ..
    } = run;
    Ok(writeln!(out, "{id}\t{at}\t{cause}\t{outcome}\t{message}")?)
}

fn iso8601(ms: i64) -> String {
    event::iso8601(u64::try_from(ms).unwrap_or(0))
}

impl Form {
    fn load(&self) -> Result<Config> {
        Ok(Config::load(self.config.as_deref(), std::env::vars())?)
    }
}
