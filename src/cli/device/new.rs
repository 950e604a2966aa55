//! `jetway device add`, `set-secret` and `credentials`: the commands that print secrets.

use std::io::Write;

use anyhow::Context;

use crate::auth::credentials::{Credentials, Method, Secret};
use crate::catalogue::{self, Notice, What};
use crate::cli::place::Place;
use crate::device::DeviceId;

#[derive(Clone, clap::Args)]
pub(super) struct Add {
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
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct SetSecret {
    /// Product id
    product: String,
    /// Device name
    name: String,
    /// The new secret; without it a random one
    #[arg(long, value_name = "BASE64")]
    secret: Option<Secret>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct Show {
    /// Product id
    product: String,
    /// Device name
    name: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    place: Place,
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

fn method(name: &str) -> Result<Method, &'static str> {
    Method::named(name).ok_or("expected hmacsha256 or hmacsha1")
}

impl Add {
    pub(super) async fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let names: Vec<String> = match self.count {
            None => vec![self.name.clone()],
            Some(count) => (0..count).map(|n| format!("{}{n}", self.name)).collect(),
        };
        // The longest name is the last: if it can log in, all can.
        let last = names.last().map_or("", String::as_str);
        let device = DeviceId::new(&self.product, last).context("PRODUCT NAME")?;
        Credentials::check(&device).context("PRODUCT NAME")?;
        let opened = self.place.open().await?;
        let added = opened
            .catalogue
            .add(&self.product, &names, self.secret.as_ref());
        let records = match added.await {
            Err(error @ catalogue::Error::Exists(_)) => {
                return Err(error).context("PRODUCT NAME: expected a new device");
            }
            added => added?,
        };
        let notice = match self.count {
            None => Notice::of(&device, What::Added),
            Some(_) => Notice::added(&self.product),
        };
        let pairs = records
            .iter()
            .map(|record| (&record.device, &record.secret));
        self.form.print(pairs, out)?;
        Ok(opened.tell(&[notice]).await)
    }
}

impl SetSecret {
    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<bool> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let opened = self.place.open().await?;
        let secret = opened.catalogue.set_secret(&device, self.secret).await;
        let secret = secret.context("PRODUCT NAME")?;
        self.form.print([(&device, &secret)].into_iter(), out)?;
        Ok(opened.tell(&[Notice::of(&device, What::Secret)]).await)
    }
}

impl Show {
    pub(super) async fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let found = self.place.open().await?.catalogue.find(&device).await?;
        let record = found.with_context(|| {
            format!(
                "PRODUCT NAME: no device {device} in the database; `jetway device add` makes it"
            )
        })?;
        self.form
            .print([(&device, &record.secret)].into_iter(), out)?;
        Ok(true)
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

impl Form {
    fn print<'a>(
        &self,
        devices: impl Iterator<Item = (&'a DeviceId, &'a Secret)>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        if !self.json {
            writeln!(out, "product\tname\tsecret\tclient_id\tusername\tpassword")?;
        }
        for (device, secret) in devices {
            let credentials = Credentials::generate(device, secret, self.method)
                .with_context(|| format!("device {device}"))?;
            let (product, name, secret) = (device.product(), device.name(), secret.text());
            if self.json {
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
}
