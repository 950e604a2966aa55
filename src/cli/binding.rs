//! `jetway binding`: which gateway device acts for which sub-devices.

use anyhow::Result;

use super::place::{Place, device};
use crate::catalogue::{Notice, What};
use crate::device::DeviceId;

/// Arguments of `jetway binding`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Let a gateway device act for sub-devices
    Add(Change),
    /// Take sub-devices from a gateway device
    Remove(Change),
    /// List the sub-devices of a gateway device
    Ls {
        /// The gateway device: PRODUCT/NAME
        #[arg(value_parser = device)]
        gateway: DeviceId,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(clap::Args)]
struct Change {
    /// The gateway device: PRODUCT/NAME
    #[arg(value_parser = device)]
    gateway: DeviceId,
    /// Sub-devices: PRODUCT/NAME; all of them or none
    #[arg(required = true, value_parser = device)]
    sub_device: Vec<DeviceId>,
    #[command(flatten)]
    place: Place,
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Add(change) => {
            let opened = change.place.open().await?;
            let bound = opened.catalogue.bind(&change.gateway, &change.sub_device);
            bound.await?;
            let notice = Notice::of(&change.gateway, What::Bound);
            Ok(opened.tell(&[notice]).await)
        }
        Command::Remove(change) => {
            let opened = change.place.open().await?;
            let unbound = opened.catalogue.unbind(&change.gateway, &change.sub_device);
            unbound.await?;
            let notice = Notice::of(&change.gateway, What::Unbound);
            Ok(opened.tell(&[notice]).await)
        }
        Command::Ls { gateway, place } => {
            let shown = place.open().await?.catalogue.show(&gateway).await?;
            for sub_device in &shown.sub_devices {
                println!("{sub_device}");
            }
            Ok(true)
        }
    }
}
