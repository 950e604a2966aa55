//! `jetway device import` and `export`: devices as CSV, in any number.
//!
//! A list is checked whole before anything is stored; with a fault in it nothing is. Then it is stored in transactions of so many
//! devices. When one fails it is said how far it came, and the same command goes on from there: what is there as the list has it is
//! left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::list::{COLUMNS, Fault, List, Row};
use crate::catalogue::{Filter, Imported, Notice, Outcome, What};
use crate::cli::place::{Opened, Place};
use crate::device::DeviceId;

/// Devices in one transaction, unless it is said otherwise; and at most.
const BATCH: u16 = 1_000;
const BATCH_MAX: i64 = 5_000;
/// Faults that are printed; the others are counted.
const FAULTS_MAX: usize = 100;

#[derive(Clone, clap::Args)]
pub(super) struct Import {
    /// CSV with the columns product, name, secret, state, gateway; `-` reads standard input
    file: PathBuf,
    /// Give devices that are there the secret and state of the list; without it they are told as faults, and left as they are
    #[arg(long)]
    replace: bool,
    /// Only check the list
    #[arg(long)]
    dry_run: bool,
    /// Devices in one transaction
    #[arg(long, value_name = "N", default_value_t = BATCH, value_parser = clap::value_parser!(u16).range(1..=BATCH_MAX))]
    batch: u16,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, clap::Args)]
pub(super) struct Export {
    /// Only the devices of this product
    product: Option<String>,
    /// With their secrets, as they are; without it that column is empty
    #[arg(long)]
    secrets: bool,
    /// A file that only its owner can read, instead of standard output; it is there when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// How far it came.
#[derive(Default)]
struct Done {
    added: usize,
    unchanged: usize,
    replaced: usize,
    bound: usize,
    faults: Vec<Fault>,
    /// What gateways are to be told of single devices.
    notices: Vec<Notice>,
    /// Products with new devices, of which they are told once.
    products: BTreeSet<String>,
}

impl Import {
    /// Whether everything that is in the list is in the database now.
    pub(super) async fn run(&self, out: &mut impl Write) -> Result<bool> {
        let place = self.file.display();
        let list = match self.file.as_os_str() == "-" {
            true => List::read(io::stdin().lock()),
            false => File::open(&self.file)
                .map_err(Into::into)
                .and_then(List::read),
        };
        let List { rows, faults } = list.with_context(|| format!("FILE {place}"))?;
        if !faults.is_empty() {
            print(&faults);
            bail!(
                "FILE {place}: nothing is stored, {} lines have faults",
                faults.len()
            );
        }
        if self.dry_run {
            writeln!(out, "{} devices, no faults", rows.len())?;
            return Ok(true);
        }
        let opened = self.place.open().await?;
        let mut done = Done::default();
        let stored = self.store(&opened, rows, &mut done).await;
        let Done {
            added,
            unchanged,
            replaced,
            bound,
            faults,
            mut notices,
            products,
        } = done;
        notices.extend(products.iter().map(|product| Notice::added(product)));
        let told = notices.is_empty() || opened.tell(&notices).await;
        print(&faults);
        let refused = faults.len();
        writeln!(
            out,
            "{added} added, {unchanged} unchanged, {replaced} replaced, {refused} refused, {bound} bound"
        )?;
        out.flush()?;
        stored.map(|()| told && refused == 0)
    }

    async fn store(&self, opened: &Opened, mut rows: Vec<Row>, done: &mut Done) -> Result<()> {
        let bar = progress(rows.len(), "devices");
        let (mut last, mut bindings) = (None, Vec::new());
        while !rows.is_empty() {
            let rest = rows.split_off(usize::from(self.batch).min(rows.len()));
            let part = std::mem::replace(&mut rows, rest);
            let lines: Vec<u64> = part.iter().map(|row| row.line).collect();
            let mut devices = Vec::with_capacity(part.len());
            for Row {
                line,
                imported,
                gateway,
            } in part
            {
                bindings.extend(gateway.map(|gateway| (gateway, imported.device.clone(), line)));
                devices.push(imported);
            }
            let stored = opened.catalogue.import(&devices, self.replace).await;
            let outcomes = stored.with_context(|| so_far(last))?;
            done.note(&lines, &devices, &outcomes);
            last = lines.last().copied();
            bar.inc(u64::try_from(outcomes.len()).unwrap_or(0));
        }
        bar.finish_and_clear();
        self.bind(opened, bindings, done).await
    }

    /// Binds sub-devices, when all devices are there.
    async fn bind(
        &self,
        opened: &Opened,
        bindings: Vec<(DeviceId, DeviceId, u64)>,
        done: &mut Done,
    ) -> Result<()> {
        let bar = progress(bindings.len(), "bindings");
        let mut of = BTreeMap::<DeviceId, Vec<(DeviceId, u64)>>::new();
        for (gateway, device, line) in bindings {
            of.entry(gateway).or_default().push((device, line));
        }
        for (gateway, sub_devices) in of {
            for part in sub_devices.chunks(self.batch.into()) {
                let devices: Vec<_> = part.iter().map(|(device, _)| device.clone()).collect();
                match opened.catalogue.bind(&gateway, &devices).await {
                    Ok(()) => done.bound += devices.len(),
                    Err(error) if error.is_refusal() => {
                        let words = format!(
                            "gateway {gateway}: {error}; none of these {} is bound",
                            devices.len()
                        );
                        let line = part.first().map_or(0, |(_, line)| *line);
                        done.faults.push(Fault { line, words });
                    }
                    Err(error) => {
                        let words =
                            "all devices are stored, not all are bound; run it again to go on";
                        return Err(error).context(words);
                    }
                }
                bar.inc(u64::try_from(devices.len()).unwrap_or(0));
            }
            done.notices.push(Notice::of(&gateway, What::Bound));
        }
        bar.finish_and_clear();
        Ok(())
    }
}

fn so_far(last: Option<u64>) -> String {
    match last {
        Some(line) => format!("lines up to {line} are stored; run it again to go on"),
        None => "nothing is stored".to_owned(),
    }
}

impl Done {
    fn note(&mut self, lines: &[u64], devices: &[Imported], outcomes: &[Outcome]) {
        for ((line, imported), outcome) in lines.iter().zip(devices).zip(outcomes) {
            let device = &imported.device;
            self.notices.extend(outcome.notice(device));
            match outcome {
                Outcome::Added => {
                    self.added += 1;
                    if !self.products.contains(device.product()) {
                        self.products.insert(device.product().to_owned());
                    }
                }
                Outcome::Unchanged => self.unchanged += 1,
                Outcome::Replaced(_) => self.replaced += 1,
                Outcome::Differs => {
                    let words = format!(
                        "{device} is there with another secret or state: --replace gives it these"
                    );
                    self.faults.push(Fault { line: *line, words });
                }
            }
        }
    }
}

fn print(faults: &[Fault]) {
    for Fault { line, words } in faults.iter().take(FAULTS_MAX) {
        eprintln!("line {line}: {words}");
    }
    if let Some(more) = faults
        .len()
        .checked_sub(FAULTS_MAX)
        .filter(|more| *more > 0)
    {
        eprintln!("and {more} more");
    }
}

/// A bar on a terminal; nothing elsewhere.
fn progress(length: usize, what: &'static str) -> ProgressBar {
    const TEMPLATE: &str = "{msg} {bar:40} {pos}/{len} {per_sec} {eta}";
    let bar = ProgressBar::new(u64::try_from(length).unwrap_or(0)).with_message(what);
    match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Export {
    pub(super) async fn run(&self, out: &mut impl Write) -> Result<bool> {
        let opened = self.place.open().await?;
        let Some(file) = &self.output else {
            self.write(&opened, out).await?;
            return Ok(true);
        };
        let place = || format!("--output {}", file.display());
        let part = part(file);
        let mut options = OpenOptions::new();
        let whole = options.write(true).create(true).truncate(true).mode(0o600);
        let mut whole = io::BufWriter::new(whole.open(&part).with_context(place)?);
        self.write(&opened, &mut whole).await?;
        let whole = whole.into_inner().map_err(io::IntoInnerError::into_error);
        whole.and_then(|file| file.sync_all()).with_context(place)?;
        fs::rename(&part, file).with_context(place)?;
        Ok(true)
    }

    async fn write(&self, opened: &Opened, out: &mut impl Write) -> Result<()> {
        let catalogue = &opened.catalogue;
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS)?;
        let filter = Filter {
            product: self.product.clone(),
            state: None,
        };
        let bar = progress(self.count(opened).await?, "devices");
        let mut after = None;
        loop {
            let page = catalogue
                .page(&filter, after.as_ref(), BATCH.into())
                .await?;
            for listed in &page {
                let secret = match self.secrets {
                    true => Some(catalogue.secret(listed)?),
                    false => None,
                };
                let gateway = listed.gateway.as_ref().map(ToString::to_string);
                writer.write_record([
                    listed.device.product(),
                    listed.device.name(),
                    secret.as_ref().map_or("", |secret| secret.text()),
                    listed.state.as_str(),
                    gateway.as_deref().unwrap_or_default(),
                ])?;
            }
            bar.inc(u64::try_from(page.len()).unwrap_or(0));
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.device),
                None => break,
            }
        }
        bar.finish_and_clear();
        Ok(writer.flush()?)
    }

    /// How many devices there are to be written, for the bar.
    async fn count(&self, opened: &Opened) -> Result<usize> {
        let (mut count, mut after) = (0, String::new());
        loop {
            let page = opened.catalogue.products(&after, BATCH.into()).await?;
            let wanted = page.iter().filter(|product| match &self.product {
                Some(wanted) => *wanted == product.id,
                None => true,
            });
            count += wanted.map(|product| product.devices).sum::<i64>();
            match page.into_iter().next_back() {
                Some(last) => after = last.id,
                None => return Ok(usize::try_from(count).unwrap_or(0)),
            }
        }
    }
}

/// Where a file is written until it is whole.
fn part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
