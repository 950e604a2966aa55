//! `jetway device set-state`, `enable`, `disable`, `block`, `remove` and `reseal`.

use std::io::Write;

use anyhow::{Context, bail};

use crate::catalogue::State;
use crate::cli::place::Place;
use crate::device::DeviceId;

/// Devices whose secrets are sealed in one transaction.
const PAGE: usize = 1_000;

#[derive(Clone, clap::Args)]
pub(super) struct One {
    /// Product id
    product: String,
    /// Device name
    name: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct SetState {
    /// Product id
    product: String,
    /// Device name
    name: String,
    /// enabled, disabled or blocked
    state: State,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct Reseal {
    #[command(flatten)]
    place: Place,
}

impl SetState {
    pub(super) async fn run(self) -> anyhow::Result<bool> {
        let Self {
            product,
            name,
            state,
            place,
        } = self;
        let one = One {
            product,
            name,
            place,
        };
        one.set(state).await
    }
}

impl One {
    pub(super) async fn set(&self, state: State) -> anyhow::Result<bool> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let opened = self.place.open().await?;
        let set = opened.catalogue.set_state(&device, state).await;
        Ok(opened.tell(&[set.context("PRODUCT NAME")?]).await)
    }

    pub(super) async fn remove(&self) -> anyhow::Result<bool> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let opened = self.place.open().await?;
        let removed = opened.catalogue.remove(&device).await;
        Ok(opened.tell(&[removed.context("PRODUCT NAME")?]).await)
    }
}

impl Reseal {
    /// Whether every secret is sealed with the current key.
    pub(super) async fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let catalogue = self.place.open().await?.catalogue;
        let Some(key) = catalogue.current_key() else {
            bail!("[catalogue] keys: expected a key to seal with");
        };
        let (mut after, mut resealed, mut failed) = (None, 0, 0);
        loop {
            let done = catalogue.reseal(after.as_ref(), PAGE).await;
            let done = done.with_context(|| format!("{resealed} are resealed so far"))?;
            resealed += done.resealed;
            failed += done.failed.len();
            for error in done.failed {
                eprintln!("{error}");
            }
            after = match done.last {
                Some(last) => Some(last),
                None => break,
            };
        }
        resealed += catalogue.reseal_products().await?;
        writeln!(out, "{resealed} resealed with key {key}, {failed} failed")?;
        Ok(failed == 0)
    }
}
