//! `jetway device`: adds devices to the database, shows their credentials, lists them.
//!
//! It works on the database alone; a running gateway sees a new device at its first login, or a few seconds later if
//! the device tried before it was added. Secrets are printed by `add` and `credentials`, never by `ls`.

use std::io::{self, Write};

use anyhow::Context;

use crate::auth::credentials::{Credentials, Method, Secret};
use crate::catalogue::{self, Catalogue, Filter, Record};
use crate::database;
use crate::device::DeviceId;

/// Devices that are asked for at once.
const PAGE: usize = 1_000;

/// Arguments of `jetway device`.
#[derive(Clone, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, clap::Subcommand)]
enum Command {
    /// Add a device, or many for a load test, and print their credentials
    Add(Add),
    /// Print what a device sends to log in
    Credentials(Show),
    /// List devices, without their secrets
    Ls(Ls),
}

#[derive(Clone, clap::Args)]
struct Add {
    /// Product id; the product is added if it is new
    product: String,
    /// Device name
    name: String,
    /// Secret for the device or, with --count, for all of them; without it each gets a random one
    #[arg(long, value_name = "BASE64")]
    secret: Option<Secret>,
    /// Add N devices: NAME0, NAME1, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: Option<u32>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    database: Database,
}

#[derive(Clone, clap::Args)]
struct Show {
    /// Product id
    product: String,
    /// Device name
    name: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    database: Database,
}

#[derive(Clone, clap::Args)]
struct Ls {
    /// Only the devices of this product
    product: Option<String>,
    #[command(flatten)]
    database: Database,
}

#[derive(Clone, clap::Args)]
struct Form {
    /// How the password is made: hmacsha256 or hmacsha1
    #[arg(long, default_value = "hmacsha256", value_parser = method)]
    method: Method,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, clap::Args)]
struct Database {
    /// Database of products and devices, for example sqlite://state/jetway.db
    #[arg(
        long = "database",
        value_name = "URL",
        env = "JETWAY_DATABASE_URL",
        hide_env_values = true
    )]
    url: String,
}

fn method(name: &str) -> Result<Method, &'static str> {
    Method::named(name).ok_or("expected hmacsha256 or hmacsha1")
}

impl Database {
    async fn open(&self) -> anyhow::Result<Catalogue> {
        let config = database::Config {
            url: self.url.clone(),
            ..database::Config::default()
        };
        Catalogue::open(&config).await.context("--database")
    }
}

/// Runs the subcommand and prints its result to standard output.
///
/// # Errors
/// Names the argument that is wrong and what was expected, or what the database could not do.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout());
    execute(args, &mut out).await?;
    Ok(out.flush()?)
}

async fn execute(args: Args, out: &mut impl Write) -> anyhow::Result<()> {
    match args.command {
        Command::Add(add) => {
            let records = add.run().await?;
            print(&records, &add.form, out)
        }
        Command::Credentials(show) => {
            let record = show.run().await?;
            print(&[record], &show.form, out)
        }
        Command::Ls(ls) => ls.run(out).await,
    }
}

impl Add {
    async fn run(&self) -> anyhow::Result<Vec<Record>> {
        let names: Vec<String> = match self.count {
            None => vec![self.name.clone()],
            Some(count) => (0..count).map(|n| format!("{}{n}", self.name)).collect(),
        };
        // The longest name is the last: if it can log in, all can.
        let last = names.last().map_or("", String::as_str);
        let device = DeviceId::new(&self.product, last).context("PRODUCT NAME")?;
        Credentials::check(&device).context("PRODUCT NAME")?;
        let devices = self.database.open().await?;
        let added = devices.add(&self.product, &names, self.secret.as_ref());
        match added.await {
            Err(error @ catalogue::Error::Exists(_)) => {
                Err(error).context("PRODUCT NAME: expected a new device")
            }
            added => Ok(added?),
        }
    }
}

impl Show {
    async fn run(&self) -> anyhow::Result<Record> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let found = self.database.open().await?.find(&device).await?;
        found.with_context(|| {
            format!(
                "PRODUCT NAME: no device {device} in the database; `jetway device add` makes it"
            )
        })
    }
}

impl Ls {
    async fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let devices = self.database.open().await?;
        let filter = Filter {
            product: self.product.clone(),
            state: None,
        };
        let mut after = None;
        loop {
            let page = devices.page(&filter, after.as_ref(), PAGE).await?;
            for listed in &page {
                let (product, name) = (listed.device.product(), listed.device.name());
                writeln!(out, "{product}\t{name}\t{}", listed.state)?;
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.device),
                None => return Ok(()),
            }
        }
    }
}

/// One device with everything it needs to log in, as printed.
#[derive(serde::Serialize)]
struct Line<'a> {
    product: &'a str,
    name: &'a str,
    secret: &'a str,
    #[serde(flatten)]
    credentials: Credentials,
}

fn print(records: &[Record], form: &Form, out: &mut impl Write) -> anyhow::Result<()> {
    if !form.json {
        writeln!(out, "product\tname\tsecret\tclient_id\tusername\tpassword")?;
    }
    for Record { device, secret, .. } in records {
        let credentials = Credentials::generate(device, secret, form.method)
            .with_context(|| format!("device {device}"))?;
        let (product, name, secret) = (device.product(), device.name(), secret.text());
        if form.json {
            let line = Line {
                product,
                name,
                secret,
                credentials,
            };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        } else {
            let Credentials {
                client_id,
                username,
                password,
            } = credentials;
            writeln!(
                out,
                "{product}\t{name}\t{secret}\t{client_id}\t{username}\t{password}"
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
