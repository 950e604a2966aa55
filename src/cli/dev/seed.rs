//! The demo product and its devices in the database of `jetway dev`; those of an earlier run are kept.

use anyhow::{Context, Result};
use serde_json::json;

use crate::auth::credentials::{Credentials, Method};
use crate::catalogue::Catalogue;
use crate::database;
use crate::device::DeviceId;

const PRODUCT: &str = "demo";

/// A device that can log in.
pub(super) struct Seed {
    pub(super) product: String,
    pub(super) name: String,
    secret: String,
    pub(super) credentials: Credentials,
}

impl Seed {
    /// As the JSON line of `jetway dev --json` shows it.
    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "product": self.product,
            "name": self.name,
            "secret": self.secret,
            "client_id": self.credentials.client_id,
            "username": self.credentials.username,
            "password": self.credentials.password,
        })
    }
}

/// The device for the newcomer, and those that the simulation plays.
pub(super) struct Seeds {
    pub(super) device: Seed,
    pub(super) fleet: Vec<Seed>,
}

/// Makes what is missing.
pub(super) async fn seed(database: &database::Config, fleet: usize) -> Result<Seeds> {
    let devices = Catalogue::open(database)
        .await
        .context("database of devices")?;
    let device = find_or_add(&devices, "device").await?;
    let mut seeds = Seeds {
        device,
        fleet: Vec::with_capacity(fleet),
    };
    for number in 0..fleet {
        let tracker = find_or_add(&devices, &format!("tracker{number}")).await?;
        seeds.fleet.push(tracker);
    }
    Ok(seeds)
}

async fn find_or_add(devices: &Catalogue, name: &str) -> Result<Seed> {
    let id = DeviceId::new(PRODUCT, name)?;
    let record = match devices.find(&id).await? {
        Some(record) => record,
        None => devices
            .add(PRODUCT, &[name.to_owned()], None)
            .await?
            .pop()
            .context("the database gave no record for a new device")?,
    };
    Ok(Seed {
        product: PRODUCT.to_owned(),
        name: name.to_owned(),
        secret: record.secret.text().to_owned(),
        credentials: Credentials::generate(&id, &record.secret, Method::HmacSha256)?,
    })
}
