//! `jetway product`: products added, listed, removed. A device's product is added with it if it is new.

use std::io::{self, Write as _};

use anyhow::Result;

use super::device::Place;

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
    /// List products, each with the number of its devices
    Ls {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
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
        Command::Remove { product, place } => {
            let catalogue = place.open().await?.catalogue;
            catalogue.remove_product(&product).await?;
        }
        Command::Ls { json, place } => {
            let catalogue = place.open().await?.catalogue;
            let mut out = io::BufWriter::new(io::stdout());
            let mut after = String::new();
            loop {
                let page = catalogue.products(&after, PAGE).await?;
                for product in &page {
                    match json {
                        true => writeln!(out, "{}", serde_json::to_string(product)?)?,
                        false => writeln!(out, "{}\t{}", product.id, product.devices)?,
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
