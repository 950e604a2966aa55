//! `gpsReportNotificationJob`: reads new reports behind its position and tells what rules find in them.
//!
//! Invariant: what is remembered of devices, the events and the position are written in one transaction.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::NOTIFICATION;
use super::progress::{self, Position};
use super::watch::{self, Origin, Rules, Watch};
use crate::database::Transaction;
use crate::device::DeviceId;
use crate::jobs::error::Error;
use crate::jobs::job::Context;
use crate::jobs::statement::{Row, execute, rows};
use crate::jobs::store::Store;
use crate::outbox::store::{Enqueue as _, Wake};
use crate::position::Report;

/// Reports of one transaction.
const REPORTS_MAX: usize = 500;

const STREAM: &str = "SELECT stream FROM gps_cursor WHERE created_ns = ? LIMIT 1";
const WATCHED: &str = "SELECT state FROM gps_watch WHERE product_id = ? AND device_name = ?";
const FORGET: &str = "DELETE FROM gps_watch WHERE product_id = ? AND device_name = ?";
const REMEMBER: &str = "INSERT INTO gps_watch (product_id, device_name, state) VALUES (?, ?, ?)";

/// The job.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) store: Store,
    pub(super) wake: Wake,
    pub(super) rules: Rules,
}

impl Notification {
    pub(super) async fn run(&self, context: &Context) -> Result<String, Error> {
        if self.rules.is_empty() {
            return Ok("there are no rules".to_owned());
        }
        let (mut reports, mut events) = (0, 0);
        loop {
            let (read, told, is_last) = self.store.steadily(|| self.pass(context)).await?;
            reports += read;
            events += told;
            if told > 0 {
                self.wake.wake();
            }
            if is_last {
                return Ok(format!("{reports} reports read, {events} notifications"));
            }
        }
    }

    /// Some reports: how many, what they told, and whether there are no more.
    async fn pass(&self, context: &Context) -> Result<(usize, usize, bool), Error> {
        let mut on = self.store.begin_transaction().await?;
        context.hold(&mut on).await?;
        let from = progress::position(&mut on, NOTIFICATION).await?;
        let Some(bound) = progress::bound(&mut on).await? else {
            return Ok((0, 0, true));
        };
        let batch = progress::batch(&mut on, from, bound, REPORTS_MAX).await?;
        let stream = stream(&mut on, from).await?;
        let mut watched: BTreeMap<(String, String), Watch> = BTreeMap::new();
        let mut events = Vec::new();
        for row in &batch.rows {
            let Some((report, sequence)) = report(row)? else {
                continue;
            };
            let key = (
                report.device.product().to_owned(),
                report.device.name().to_owned(),
            );
            let watch = match watched.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    unknown.insert(watched_of(&mut on, &report.device).await?)
                }
            };
            let origin = Origin {
                stream: &stream,
                sequence,
            };
            events.extend(watch.step(&report, &origin, &self.rules));
        }
        for ((product, name), watch) in &watched {
            let state = serde_json::to_string(watch);
            let state = state.map_err(|error| Error::Failed(error.to_string()))?;
            let device = [(&**product).into(), (&**name).into()];
            execute(&mut on, FORGET, &device).await?;
            let [product, name] = device;
            execute(&mut on, REMEMBER, &[product, name, (&*state).into()]).await?;
        }
        on.enqueue(&events).await?;
        progress::advance(&mut on, NOTIFICATION, batch.end).await?;
        on.commit().await?;
        for event in &events {
            context.say(&format!("{} {}", event.subject, event.event_id));
        }
        Ok((batch.rows.len(), events.len(), batch.is_last))
    }
}

/// The name of the stream that reports behind a position are of.
async fn stream(on: &mut Transaction, from: Position) -> Result<String, sqlx::Error> {
    let rows = rows(on, STREAM, &[from.created_ns.into()]).await?;
    let found = rows.first().map(|row| row.get(0)).transpose()?;
    // One that was replaced is in no cursor any more; what is derived from this is then its own.
    Ok(found.unwrap_or_else(|| from.created_ns.to_string()))
}

async fn watched_of(on: &mut Transaction, device: &DeviceId) -> Result<Watch, sqlx::Error> {
    let names = [device.product().into(), device.name().into()];
    let rows = rows(on, WATCHED, &names).await?;
    let state: Option<String> = rows.first().map(|row| row.get(0)).transpose()?;
    Ok(state.map_or_else(Watch::default, |state| watch::read(&state, device)))
}

/// A report and the sequence of its message; none if its row is not one of ours.
fn report(row: &Row) -> Result<Option<(Report, u64)>, sqlx::Error> {
    let (product, name): (String, String) = (row.get(2)?, row.get(3)?);
    let Ok(device) = DeviceId::new(&product, &name) else {
        return Ok(None);
    };
    let (sequence, index): (i64, i64) = (row.get(0)?, row.get(1)?);
    let (device_ms, received_ms): (Option<i64>, i64) = (row.get(5)?, row.get(6)?);
    let (system, flags): (i64, i64) = (row.get(9)?, row.get(11)?);
    let report = Report {
        device,
        index: u32::try_from(index).unwrap_or(0),
        latitude: row.get(7)?,
        longitude: row.get(8)?,
        system: super::system(system),
        altitude_m: None,
        speed_mps: row.get(10)?,
        course_deg: None,
        satellites: None,
        hdop: None,
        accuracy_m: None,
        device_ms: device_ms.and_then(|ms| u64::try_from(ms).ok()),
        received_ms: u64::try_from(received_ms).unwrap_or(0),
        flags: super::flags(flags),
    };
    Ok(Some((report, u64::try_from(sequence).unwrap_or(0))))
}
