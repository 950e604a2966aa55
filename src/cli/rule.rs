//! `jetway product rule`: which topics the devices of a product may use beside their own, and which they may not.

use std::io::{self, Write as _};

use anyhow::Result;

use super::place::Place;
use crate::access::{Actions, Effect, Filter, Rule};
use crate::catalogue::{Notice, What};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// List the rules of a product
    Ls {
        /// Product id
        product: String,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Add a rule; who is connected is held to it at once
    Add(Change),
    /// Remove a rule, named by what it says
    Rm(Change),
}

#[derive(clap::Args)]
pub(super) struct Change {
    /// Product id
    product: String,
    /// allow or deny; what is denied is denied whatever else allows it, also to the gateway device that acts for a device
    effect: Effect,
    /// publish, subscribe or both
    action: Actions,
    /// MQTT topic filter; {productID} and {deviceName} are levels of the product's device, {clientID} is of the connection
    filter: Filter,
    #[command(flatten)]
    place: Place,
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(command: Command) -> Result<bool> {
    let (change, adds) = match command {
        Command::Ls {
            product,
            json,
            place,
        } => {
            let rules = place.open().await?.catalogue.rules_of(&product).await?;
            let mut out = io::stdout();
            for rule in rules {
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&rule)?)?,
                    false => writeln!(out, "{}\t{}\t{}", rule.effect, rule.action, rule.filter)?,
                }
            }
            return Ok(true);
        }
        Command::Add(change) => (change, true),
        Command::Rm(change) => (change, false),
    };
    let rule = Rule {
        effect: change.effect,
        action: change.action,
        filter: change.filter,
    };
    let opened = change.place.open().await?;
    match adds {
        true => opened.catalogue.add_rule(&change.product, &rule).await?,
        false => opened.catalogue.remove_rule(&change.product, &rule).await?,
    }
    let notice = Notice::of_product(&change.product, What::Rules);
    Ok(opened.tell(&[notice]).await)
}
