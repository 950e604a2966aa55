//! The subcommands of `jetway device`. Secrets are printed by `add`, `set-secret`, `credentials` and `export
//! --secrets`, never by others.

use std::io::{self, Write};

use super::bulk::{Export, Import};
use super::change::{One, Reseal, SetState};
use super::new::{Add, SetSecret, Show as Credentials};
use super::show::{Ls, Show};
use crate::catalogue::State;

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
    Credentials(Credentials),
    /// List devices, without their secrets
    Ls(Ls),
    /// Show a device with its certificates, its gateway and its sub-devices, without its secret
    Show(Show),
    /// Let a device in, or not: enabled, disabled or blocked
    SetState(SetState),
    /// Let a device in
    Enable(One),
    /// Switch a device off: it is disconnected, and may not log in
    Disable(One),
    /// Shut a device out, as `disable` does, for what it did
    Block(One),
    /// Give a device a new secret, and print its credentials; who is connected with the old one is disconnected
    SetSecret(SetSecret),
    /// Remove a device with its certificates and bindings; it is disconnected
    Remove(One),
    /// Add devices of a CSV file, any number of them; run again after a failure it goes on
    Import(Import),
    /// Write devices as CSV
    Export(Export),
    /// Seal all secrets with the first of the keys
    Reseal(Reseal),
}

/// Runs the subcommand and prints its result to standard output; whether everything that was asked for was done.
///
/// # Errors
/// Names the argument that is wrong and what was expected, or what the database could not do.
pub async fn run(args: Args) -> anyhow::Result<bool> {
    let mut out = io::BufWriter::new(io::stdout());
    let done = execute(args, &mut out).await?;
    out.flush()?;
    Ok(done)
}

async fn execute(args: Args, out: &mut impl Write) -> anyhow::Result<bool> {
    match args.command {
        Command::Add(add) => add.run(out).await,
        Command::Credentials(credentials) => credentials.run(out).await,
        Command::Ls(ls) => ls.run(out).await,
        Command::Show(show) => show.run(out).await,
        Command::SetState(set) => set.run().await,
        Command::Enable(one) => one.set(State::Enabled).await,
        Command::Disable(one) => one.set(State::Disabled).await,
        Command::Block(one) => one.set(State::Blocked).await,
        Command::SetSecret(set) => set.run(out).await,
        Command::Remove(one) => one.remove().await,
        Command::Import(import) => import.run(out).await,
        Command::Export(export) => export.run(out).await,
        Command::Reseal(reseal) => reseal.run(out).await,
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
