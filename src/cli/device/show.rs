//! `jetway device ls` and `show`: devices without their secrets. `show` also asks the gateways, where NATS is named, what they refused
//! to the device, or dropped of it.

use std::io::Write;

use anyhow::Context;
use serde_json::json;

use crate::catalogue::{Filter, Listed, State};
use crate::cli::place::Place;
use crate::device::DeviceId;
use crate::event;
use crate::protection::{Answer, Ask, Refusal};

/// Devices that are asked for at once.
const PAGE: usize = 1_000;

#[derive(Clone, clap::Args)]
pub(super) struct Ls {
    /// Only the devices of this product
    product: Option<String>,
    /// Only those in this state: enabled, disabled or blocked
    #[arg(long)]
    state: Option<State>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct Show {
    /// Product id
    product: String,
    /// Device name
    name: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Ls {
    pub(super) async fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let catalogue = self.place.open().await?.catalogue;
        let filter = Filter {
            product: self.product.clone(),
            state: self.state,
        };
        let mut after = None;
        loop {
            let page = catalogue.page(&filter, after.as_ref(), PAGE).await?;
            for listed in &page {
                let Listed { device, state, .. } = listed;
                let (product, name) = (device.product(), device.name());
                match self.json {
                    true => writeln!(out, "{}", listed.described())?,
                    false => writeln!(out, "{product}\t{name}\t{state}")?,
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.device),
                None => return Ok(true),
            }
        }
    }
}

impl Show {
    pub(super) async fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let device = DeviceId::new(&self.product, &self.name).context("PRODUCT NAME")?;
        let opened = self.place.open().await?;
        let shown = opened.catalogue.show(&device).await;
        let shown = shown.context("PRODUCT NAME")?;
        let question = Ask::Refusals {
            product: self.product.clone(),
            device: self.name.clone(),
        };
        let asked = opened.ask(&question).await;
        let answers = asked
            .inspect_err(|error| eprintln!("what was refused to it is not known: {error:#}"))
            .ok();
        let is_complete = answers.is_some();
        let answers = answers.unwrap_or_default();
        if self.json {
            let refused: Vec<_> = (answers.iter())
                .flat_map(|answer| {
                    answer
                        .refusals
                        .iter()
                        .map(|refusal| (&answer.node, refusal))
                })
                .map(|(node, refusal)| json!({ "node": node, "refusal": refusal }))
                .collect();
            let mut described = shown.described();
            if let Some(fields) = described.as_object_mut() {
                fields.insert("refused".to_owned(), refused.into());
            }
            writeln!(out, "{described}")?;
            return Ok(is_complete);
        }
        let time = |at_ms| event::iso8601(u64::try_from(at_ms).unwrap_or(0));
        let activated = shown.listed.activated_at_ms.map(time);
        let activated = activated.as_deref().unwrap_or("never");
        writeln!(out, "device\t{device}")?;
        writeln!(out, "state\t{}", shown.listed.state)?;
        writeln!(out, "created\t{}", time(shown.listed.created_at_ms))?;
        writeln!(out, "activated\t{activated}")?;
        if let Some(gateway) = &shown.listed.gateway {
            writeln!(out, "gateway\t{gateway}")?;
        }
        for sub_device in &shown.sub_devices {
            writeln!(out, "sub-device\t{sub_device}")?;
        }
        for certificate in &shown.certificates {
            writeln!(out, "certificate\t{certificate}")?;
        }
        for Answer { node, refusals, .. } in &answers {
            for refusal in refusals {
                let Refusal {
                    reason,
                    count,
                    at_ms,
                    detail,
                } = refusal;
                let (reason, at) = (reason.as_str(), event::iso8601(*at_ms));
                writeln!(out, "refused\t{node}\t{reason}\t{count}\t{at}\t{detail}")?;
            }
        }
        Ok(is_complete)
    }
}
