//! `gpsReportScheduleJob`: windows of reports by the time of each, closed some time after their end, a summary and an event each.
//!
//! New reports mark the windows that they are in. A window that is marked and over is summed up from all reports up to the job's
//! position; so a report that comes after its window was closed opens it again, and the next revision has it.
//! Invariant: mark and position, and summary, event and mark, are written together.

use serde::Serialize;

use super::SCHEDULE;
use super::event::event;
use super::progress::{self, Position};
use super::summary::{Place, Sample, Summary};
use crate::database::Transaction;
use crate::device::DeviceId;
use crate::event::Timestamp;
use crate::jobs::error::Error;
use crate::jobs::job::Context;
use crate::jobs::statement::{Row, Value, execute, rows};
use crate::jobs::store::Store;
use crate::mapping::GpsEvent;
use crate::outbox::store::{Enqueue as _, Event, Wake};

/// Reports that are read in one transaction, and windows that are closed in one.
const REPORTS_MAX: usize = 1_000;
const WINDOWS_MAX: i64 = 20;

const MARK: &str = "INSERT INTO gps_window (window_start_ms, product_id, device_name) \
     VALUES (?, ?, ?) {or_nothing product_id}";
const OVER: &str = "SELECT window_start_ms, product_id, device_name FROM gps_window \
     WHERE window_start_ms <= {now} - ? ORDER BY window_start_ms, product_id, device_name LIMIT ?";
const UNMARK: &str =
    "DELETE FROM gps_window WHERE window_start_ms = ? AND product_id = ? AND device_name = ?";
const SAMPLES: &str = "SELECT at_ms, latitude, longitude, coordinate_system, speed_mps, flags \
     FROM gps_report WHERE product_id = ? AND device_name = ? AND at_ms >= ? AND at_ms < ? \
     AND (stream_created_ns < ? OR (stream_created_ns = ? AND \
     (sequence < ? OR (sequence = ? AND point <= ?)))) \
     ORDER BY at_ms, stream_created_ns, sequence, point";
const REVISION: &str = "SELECT revision FROM gps_summary \
     WHERE product_id = ? AND device_name = ? AND window_start_ms = ?";
const FORGET: &str =
    "DELETE FROM gps_summary WHERE product_id = ? AND device_name = ? AND window_start_ms = ?";
const SUM_UP: &str = "INSERT INTO gps_summary (product_id, device_name, window_start_ms, window_end_ms, revision, \
     points, valid, first_ms, first_latitude, first_longitude, last_ms, last_latitude, last_longitude, \
     distance_m, speed_max_mps, closed_ms) \
     SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now}";

/// The job.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) store: Store,
    pub(super) wake: Wake,
    pub(super) window_ms: i64,
    /// How long after its end a window is closed.
    pub(super) grace_ms: i64,
}

/// Of a device.
struct Window {
    device: DeviceId,
    start_ms: i64,
}

#[derive(Serialize)]
struct At {
    at: Timestamp,
    latitude: f64,
    longitude: f64,
}

#[derive(Serialize)]
struct Closed<'a> {
    product_id: &'a str,
    device_name: &'a str,
    window_start: Timestamp,
    window_end: Timestamp,
    revision: i64,
    points: i64,
    valid_points: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<At>,
    distance_m: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_max_mps: Option<f64>,
}

impl Windows {
    pub(super) async fn run(&self, context: &Context) -> Result<String, Error> {
        let (mut reports, mut closed) = (0, 0);
        loop {
            let (count, is_last) = self.store.steadily(|| self.mark(context)).await?;
            reports += count;
            if is_last {
                break;
            }
        }
        loop {
            let count = self.store.steadily(|| self.close(context)).await?;
            closed += count;
            if count == 0 {
                return Ok(format!("{reports} reports read, {closed} windows closed"));
            }
            self.wake.wake();
        }
    }

    /// Marks the windows of some new reports: how many, and whether there are no more.
    async fn mark(&self, context: &Context) -> Result<(usize, bool), Error> {
        let mut on = self.store.begin_transaction().await?;
        context.hold(&mut on).await?;
        let from = progress::position(&mut on, SCHEDULE).await?;
        let Some(bound) = progress::bound(&mut on).await? else {
            return Ok((0, true));
        };
        let batch = progress::batch(&mut on, from, bound, REPORTS_MAX).await?;
        let mut marks = Vec::with_capacity(batch.rows.len());
        for row in &batch.rows {
            let (product, name): (String, String) = (row.get(2)?, row.get(3)?);
            let at_ms: i64 = row.get(4)?;
            let start_ms = at_ms - at_ms.rem_euclid(self.window_ms);
            marks.push((start_ms, product, name));
        }
        // In one order, so that whoever else writes marks is not waited for in a circle.
        marks.sort_unstable();
        marks.dedup();
        for (start_ms, product, name) in &marks {
            let values = [(*start_ms).into(), (&**product).into(), (&**name).into()];
            execute(&mut on, MARK, &values).await?;
        }
        progress::advance(&mut on, SCHEDULE, batch.end).await?;
        on.commit().await?;
        Ok((batch.rows.len(), batch.is_last))
    }

    /// Closes some windows that are over: how many.
    async fn close(&self, context: &Context) -> Result<usize, Error> {
        let mut on = self.store.begin_transaction().await?;
        context.hold(&mut on).await?;
        let until = progress::position(&mut on, SCHEDULE).await?;
        let ago_ms = self.window_ms.saturating_add(self.grace_ms);
        let marked = rows(&mut on, OVER, &[ago_ms.into(), WINDOWS_MAX.into()]).await?;
        let mut events = Vec::with_capacity(marked.len());
        for row in &marked {
            let (product, name): (String, String) = (row.get(1)?, row.get(2)?);
            let start_ms: i64 = row.get(0)?;
            let place = [start_ms.into(), (&*product).into(), (&*name).into()];
            execute(&mut on, UNMARK, &place).await?;
            match DeviceId::new(&product, &name) {
                Ok(device) => {
                    let window = Window { device, start_ms };
                    events.push(self.sum_up(&mut on, &window, until).await?);
                }
                Err(error) => context.say(&format!("window of {product}/{name}: {error}")),
            }
        }
        on.enqueue(&events).await?;
        on.commit().await?;
        for event in &events {
            context.say(&format!("{} {}", event.subject, event.event_id));
        }
        Ok(marked.len())
    }

    async fn sum_up(
        &self,
        on: &mut Transaction,
        window: &Window,
        until: Position,
    ) -> Result<Event, Error> {
        let (product, name) = (window.device.product(), window.device.name());
        let end_ms = window.start_ms.saturating_add(self.window_ms);
        let values: [Value<'_>; 9] = [
            product.into(),
            name.into(),
            window.start_ms.into(),
            end_ms.into(),
            until.created_ns.into(),
            until.created_ns.into(),
            until.sequence.into(),
            until.sequence.into(),
            until.point.into(),
        ];
        let samples = rows(on, SAMPLES, &values).await?;
        let samples = samples.iter().map(sample).collect::<Result<Vec<_>, _>>()?;
        let summary = Summary::of(samples.into_iter());
        let place: [Value<'_>; 3] = [product.into(), name.into(), window.start_ms.into()];
        let before = rows(on, REVISION, &place).await?;
        let before: Option<i64> = before.first().map(|row| row.get(0)).transpose()?;
        let revision = before.unwrap_or(0) + 1;
        execute(on, FORGET, &place).await?;
        let [first, last] = [summary.first, summary.last];
        let values: [Value<'_>; 15] = [
            product.into(),
            name.into(),
            window.start_ms.into(),
            end_ms.into(),
            revision.into(),
            summary.points.into(),
            summary.valid.into(),
            first.map(|place| place.at_ms).into(),
            first.map(|place| place.latitude).into(),
            first.map(|place| place.longitude).into(),
            last.map(|place| place.at_ms).into(),
            last.map(|place| place.latitude).into(),
            last.map(|place| place.longitude).into(),
            Some(summary.distance_m).into(),
            summary.speed_max_mps.into(),
        ];
        execute(on, SUM_UP, &values).await?;
        Ok(closed(window, end_ms, revision, &summary))
    }
}

fn closed(window: &Window, end_ms: i64, revision: i64, summary: &Summary) -> Event {
    let (product_id, device_name) = (window.device.product(), window.device.name());
    let at = |place: Place| At {
        at: timestamp(place.at_ms),
        latitude: place.latitude,
        longitude: place.longitude,
    };
    let kind = GpsEvent::WindowClosed;
    let end = timestamp(end_ms);
    let parts: [&[u8]; 5] = [
        kind.name().as_bytes(),
        product_id.as_bytes(),
        device_name.as_bytes(),
        &window.start_ms.to_be_bytes(),
        &revision.to_be_bytes(),
    ];
    let data = Closed {
        product_id,
        device_name,
        window_start: timestamp(window.start_ms),
        window_end: end,
        revision,
        points: summary.points,
        valid_points: summary.valid,
        first: summary.first.map(at),
        last: summary.last.map(at),
        distance_m: summary.distance_m,
        speed_max_mps: summary.speed_max_mps,
    };
    event(kind, &window.device, end.0, &parts, data)
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp(u64::try_from(ms).unwrap_or(0))
}

fn sample(row: &Row) -> Result<Sample, sqlx::Error> {
    let (system, flags): (i64, i64) = (row.get(3)?, row.get(5)?);
    Ok(Sample {
        at_ms: row.get(0)?,
        latitude: row.get(1)?,
        longitude: row.get(2)?,
        system: super::system(system),
        speed_mps: row.get(4)?,
        flags: super::flags(flags),
    })
}
