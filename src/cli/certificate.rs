//! `jetway certificate`: by which certificates devices are known. Only fingerprints are kept, no keys and no certificates.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::place::{Place, device};
use crate::catalogue::{Fingerprint, Notice, What};
use crate::device::DeviceId;

/// Arguments of `jetway certificate`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Let a device prove itself with a certificate
    Add(Change),
    /// Take a certificate from a device, which is disconnected
    Remove(Change),
    /// List the fingerprints of a device's certificates
    Ls {
        /// The device: PRODUCT/NAME
        #[arg(value_parser = device)]
        device: DeviceId,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(clap::Args)]
struct Change {
    /// The device: PRODUCT/NAME
    #[arg(value_parser = device)]
    device: DeviceId,
    /// The certificate, as PEM
    #[arg(
        required_unless_present = "fingerprint",
        conflicts_with = "fingerprint"
    )]
    file: Option<PathBuf>,
    /// Its SHA-256 fingerprint instead, 64 hexadecimal digits; colons may be between them
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    place: Place,
}

/// Runs the subcommand; whether everything that was asked for was done.
pub(super) async fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Add(change) => change.make(What::CertificateAdded).await,
        Command::Remove(change) => change.make(What::CertificateRemoved).await,
        Command::Ls { device, place } => {
            let catalogue = place.open().await?.catalogue;
            for bytes in catalogue.certificates(&device).await? {
                println!("{}", Fingerprint(bytes));
            }
            Ok(true)
        }
    }
}

impl Change {
    async fn make(&self, what: What) -> Result<bool> {
        let Fingerprint(bytes) = match (&self.fingerprint, &self.file) {
            (Some(fingerprint), _) => *fingerprint,
            (None, file) => read(file.as_deref().unwrap_or_else(|| Path::new("")))?,
        };
        let opened = self.place.open().await?;
        match what {
            What::CertificateAdded => opened.catalogue.add_certificate(&self.device, &bytes).await,
            _ => {
                opened
                    .catalogue
                    .remove_certificate(&self.device, &bytes)
                    .await
            }
        }?;
        Ok(opened.tell(&[Notice::of(&self.device, what)]).await)
    }
}

/// The fingerprint of the first certificate of a file.
fn read(file: &Path) -> Result<Fingerprint> {
    let der = CertificateDer::from_pem_file(file)
        .with_context(|| format!("FILE {}: expected a certificate as PEM", file.display()))?;
    Ok(Fingerprint::of(&der))
}
