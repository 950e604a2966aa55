//! `jetway product`: products added, listed, removed, and opened for registration. A device's product is added with it if it is new.

use std::io::{self, Write as _};

use anyhow::Result;

use super::place::Place;
use super::rule;
use crate::catalogue::Registration;

/// Products that are asked for at once.
const PAGE: usize = 1_000;

/// Arguments of `jetway product`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add a product without devices
    Add {
        /// Product id
        product: String,
        #[command(flatten)]
        place: Place,
    },
    /// List products, each with the number of its devices and which of them may register themselves
    Ls {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Say which devices of a product may register themselves, and print the secret that they prove it with
    Registration {
        /// Product id
        product: String,
        /// closed, known (devices that are there and did not log in yet) or new (those, and others, which are added)
        devices: Registration,
        /// The secret, of at least 16 bytes; without it that of before, or a random one. Closing the product forgets it
        #[arg(long)]
        secret: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Say which topics its devices may use beside their own, and which they may not
    #[command(subcommand)]
    Rule(rule::Command),
    /// Remove a product that has no devices
    Remove {
        /// Product id
        product: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Runs the subcommand.
pub(super) async fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Add { product, place } => {
            place.open().await?.catalogue.add_product(&product).await?;
        }
        Command::Registration {
            product,
            devices,
            secret,
            place,
        } => {
            let catalogue = place.open().await?.catalogue;
            let changed = catalogue.change_registration(&product, devices, secret);
            let secret = changed.await?;
            if let Some(secret) = secret {
                writeln!(io::stdout(), "{}", secret.text())?;
            }
        }
        Command::Remove { product, place } => {
            let catalogue = place.open().await?.catalogue;
            catalogue.remove_product(&product).await?;
        }
        Command::Rule(command) => return rule::run(command).await,
        Command::Ls { json, place } => {
            let catalogue = place.open().await?.catalogue;
            let mut out = io::BufWriter::new(io::stdout());
            let mut after = String::new();
            loop {
                let page = catalogue.products(&after, PAGE).await?;
                for product in &page {
                    match json {
                        true => writeln!(out, "{}", serde_json::to_string(product)?)?,
                        false => {
                            let registration = product.registration.as_str();
                            writeln!(out, "{}\t{}\t{registration}", product.id, product.devices)?;
                        }
                    }
                }
                match page.into_iter().next_back() {
                    Some(last) => after = last.id,
                    None => break,
                }
            }
            out.flush()?;
        }
    }
    Ok(true)
}
