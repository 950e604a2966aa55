//! A batch into the database: dead letters first, then cursor, rows, latest positions, tracks and events in one transaction.
//!
//! What the database refuses because of what is in it is tried in halves until it is known which report it is; that one becomes a
//! dead letter, and the others are written. Whatever else goes wrong is told to the worker, which begins again at the cursor.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::deriving::{self, Derived, Known};
use super::metrics::Metrics;
use super::queue::{Death, Found, Input};
use super::store::{Batch, Cursor, Tables, day_of};
use super::watched::Watched;
use crate::database::{Fate, fate};
use crate::device::DeviceId;
use crate::dlq::{Kept, NotKept, Once};
use crate::mapping::{EventDeath, Mapping};
use crate::outbox::store::{Enqueue as _, Wake};
use crate::position::Watching;
use crate::telemetry;

/// How long one answer of JetStream may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a transaction may take: a database that says nothing is taken for one that is away.
const TRANSACTION_MAX: Duration = Duration::from_secs(30);
/// So often others may be in the way of one transaction before the worker begins again.
const CONFLICTS_MAX: u32 = 10;
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);
/// The reason of a dead letter whose report the database refused.
const REFUSED: &str = "refused";

/// Why a batch is not written, or not known to be. Who goes on reads the cursor again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("dead letter: {0}")]
    DeadLetter(#[from] NotKept),
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    #[error("database: no answer within {0:?}")]
    Silent(Duration),
    #[error("another worker has moved the cursor")]
    Overtaken,
}

/// Why one transaction was not committed.
#[derive(Debug)]
enum Failure {
    /// The database does not want what is in it; nothing was written.
    Refused(sqlx::Error),
    /// Others were in the way; nothing was written.
    Conflict(sqlx::Error),
    Other(Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match fate(&error) {
            Fate::Conflict => Self::Conflict(error),
            _ => Self::Other(error.into()),
        }
    }
}

/// Of a statement that writes what devices said.
fn about_rows(error: sqlx::Error) -> Failure {
    match fate(&error) {
        Fate::Refused => Failure::Refused(error),
        _ => error.into(),
    }
}

/// Writes the batches of one shard, one after the other.
pub(super) struct Writing {
    pub(super) tables: Tables,
    pub(super) wake: Wake,
    pub(super) watched: Arc<Watched>,
    pub(super) source: Arc<str>,
    pub(super) shard: u32,
    pub(super) shards: u32,
    pub(super) dead_letters: Once,
    pub(super) metrics: Metrics,
    /// Days that reports can be written of.
    pub(super) days: HashSet<i64>,
}

impl Writing {
    /// Writes what these inputs say, and the cursor behind them in the place of this one.
    pub(super) async fn write(
        &mut self,
        inputs: Vec<Input>,
        mut cursor: Option<Cursor>,
    ) -> Result<Option<Cursor>, Error> {
        let mut parts = vec![inputs];
        let mut conflicts = 0;
        let mut is_day_sure = false;
        while let Some(mut part) = parts.pop() {
            for input in &part {
                self.bury(input).await?;
            }
            match self.transact(&part, cursor.as_ref()).await {
                Ok(moved) => {
                    cursor = Some(moved);
                    conflicts = 0;
                }
                Err(Failure::Conflict(error)) if conflicts >= CONFLICTS_MAX => {
                    return Err(error.into());
                }
                Err(Failure::Conflict(_)) => {
                    conflicts += 1;
                    sleep(CONFLICT_PAUSE * conflicts).await;
                    parts.push(part);
                }
                Err(Failure::Refused(_)) if !is_day_sure => {
                    // The partition of a day may have been dropped since it was seen.
                    is_day_sure = true;
                    self.days.clear();
                    parts.push(part);
                }
                Err(Failure::Refused(_)) if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(Failure::Refused(error)) => {
                    let Some(input) = part.pop() else { continue };
                    parts.push(vec![self.sort_out(input, error).await?]);
                }
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        Ok(cursor)
    }

    /// One transaction, within a limited time.
    async fn transact(&mut self, part: &[Input], from: Option<&Cursor>) -> Result<Cursor, Failure> {
        let begun = Instant::now();
        let transaction = timeout(TRANSACTION_MAX, self.transaction(part, from));
        let silent = |_elapsed| Failure::Other(Error::Silent(TRANSACTION_MAX));
        let (cursor, derived) = transaction.await.map_err(silent)??;
        self.metrics.batches.inc();
        self.metrics
            .batch_seconds
            .observe(begun.elapsed().as_secs_f64());
        self.metrics.reports.inc_by(derived.rows.len() as u64);
        self.metrics.events.inc_by(derived.events.len() as u64);
        self.metrics.no_fix.inc_by(derived.no_fix);
        self.metrics.late.inc_by(derived.late);
        self.metrics.sampled_out.inc_by(derived.sampled_out);
        if !derived.events.is_empty() {
            self.wake.wake();
        }
        Ok(cursor)
    }

    async fn transaction(
        &mut self,
        part: &[Input],
        from: Option<&Cursor>,
    ) -> Result<(Cursor, Derived), Failure> {
        self.make_room(part).await?;
        let mut batch = self.tables.begin().await?;
        let to = self.behind(part, from);
        let shard = i32::try_from(self.shard).unwrap_or(i32::MAX);
        // First: whoever else has the shard waits here, and then sees that it is late.
        match batch.advance(shard, from, &to).await {
            Ok(true) => {}
            Ok(false) => return Err(Failure::Other(Error::Overtaken)),
            Err(error) if fate(&error) == Fate::Duplicate => {
                return Err(Failure::Other(Error::Overtaken));
            }
            Err(error) => return Err(error.into()),
        }
        let watching = self.watched.watching();
        let mut known = known(&mut batch, part, watching.as_ref()).await?;
        let derived = deriving::derive(part, &mut known, &self.source, watching.as_ref());
        put(&mut batch, &derived, &known)
            .await
            .map_err(about_rows)?;
        batch.commit().await.map_err(about_rows)?;
        Ok((to, derived))
    }

    /// The cursor behind these inputs.
    fn behind(&self, part: &[Input], from: Option<&Cursor>) -> Cursor {
        let last = part.last();
        let created = last.map(|last| &last.created);
        let text = created.map(|created| created.text.to_string());
        let sequence = last.map_or(0, |last| last.sequence);
        Cursor {
            shards: i32::try_from(self.shards).unwrap_or(i32::MAX),
            stream: self.source.to_string(),
            created: text
                .or_else(|| from.map(|from| from.created.clone()))
                .unwrap_or_default(),
            created_ns: created.map_or(0, |created| created.ns),
            sequence: i64::try_from(sequence).unwrap_or(i64::MAX),
        }
    }

    /// Room for the days of these reports.
    async fn make_room(&mut self, part: &[Input]) -> Result<(), sqlx::Error> {
        let found = part.iter().filter_map(|input| input.found.as_ref());
        let days: HashSet<i64> = found
            .map(|found| day_of(i64::try_from(found.received_ms).unwrap_or(i64::MAX)))
            .filter(|day| !self.days.contains(day))
            .collect();
        if !days.is_empty() {
            self.tables.make_room(days.iter().copied()).await?;
            self.days.extend(days);
        }
        Ok(())
    }

    /// Takes the reports out of a message that the database refuses, each tried alone without being kept; all if only together
    /// they are refused.
    async fn sort_out(&self, mut input: Input, refusal: sqlx::Error) -> Result<Input, Error> {
        let Some(found) = input.found.take() else {
            // A place alone has nothing that a device said.
            return Err(refusal.into());
        };
        let mut good = Vec::new();
        let mut refused = None;
        for report in &found.reports {
            let alone = Found {
                reports: vec![report.clone()],
                ..found.clone()
            };
            let alone = Input {
                found: Some(alone),
                ..input.clone()
            };
            match self.try_alone(&alone).await {
                Ok(()) => good.push(report.clone()),
                Err(Failure::Refused(error)) => refused = Some((report.index, error)),
                Err(Failure::Conflict(error)) => return Err(error.into()),
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        let (path, rule) = match refused {
            Some((index, error)) => (format!("report {index}"), error.to_string()),
            None => {
                good.clear();
                (String::new(), refusal.to_string())
            }
        };
        tracing::error!(
            sequence = input.sequence,
            rule,
            "the database refuses a report"
        );
        input.found = Some(Found {
            reports: good,
            death: Some(Death {
                reason: REFUSED,
                path,
                rule,
            }),
            ..found
        });
        Ok(input)
    }

    async fn try_alone(&self, input: &Input) -> Result<(), Failure> {
        let part = std::slice::from_ref(input);
        let mut batch = self.tables.begin().await?;
        let watching = self.watched.watching();
        let mut known = known(&mut batch, part, watching.as_ref()).await?;
        let derived = deriving::derive(part, &mut known, &self.source, watching.as_ref());
        let tried = put(&mut batch, &derived, &known).await.map_err(about_rows);
        batch.rollback().await?;
        tried
    }

    /// Stores the dead letter of an input, if it has one.
    async fn bury(&mut self, input: &Input) -> Result<(), Error> {
        let Some(found) = &input.found else {
            return Ok(());
        };
        let Some(death) = &found.death else {
            return Ok(());
        };
        let dead = Mapping::dead_event(
            &found.device,
            &found.message,
            &EventDeath {
                origin: "gps",
                reason: death.reason,
                path: &death.path,
                rule: &death.rule,
                stream: &self.source,
                created: &input.created.text,
                sequence: input.sequence,
                received_ms: found.received_ms,
                traceparent: &found.traceparent,
                now_ms: telemetry::now_unix_ms(),
            },
        );
        match self.dead_letters.keep(&dead, ANSWER_MAX).await? {
            Kept::New => self.metrics.dead_letter(death.reason),
            Kept::Before => {}
            Kept::Lost => drop(self.metrics.dead_letters_lost.inc()),
        }
        Ok(())
    }
}

/// What is known of the devices of these inputs.
pub(super) async fn known(
    batch: &mut Batch,
    part: &[Input],
    watching: Option<&Watching<'_>>,
) -> Result<Known, sqlx::Error> {
    let mut known = Known::default();
    let devices = deriving::devices(part);
    if devices.is_empty() {
        return Ok(known);
    }
    let device = |product: &str, name: &str| DeviceId::new(product, name).ok();
    let latest = batch.latest(&devices).await?.into_iter();
    known.latest = latest
        .filter_map(|(product, name, at_ms)| {
            Some((device(&product, &name)?, u64::try_from(at_ms).ok()?))
        })
        .collect::<HashMap<_, _>>();
    if watching.is_some() {
        let tracks = batch.tracks(&devices).await?.into_iter();
        known.tracks = tracks
            .filter_map(|(product, name, state)| {
                let track = serde_json::from_str(&state);
                let track = track.inspect_err(
                    |error| tracing::error!(product, name, %error, "track begins anew"),
                );
                Some((device(&product, &name)?, track.ok()?))
            })
            .collect();
    }
    Ok(known)
}

/// Everything that is derived, but for the cursor.
pub(super) async fn put(
    batch: &mut Batch,
    derived: &Derived,
    known: &Known,
) -> Result<(), sqlx::Error> {
    if !derived.rows.is_empty() {
        batch.insert(&derived.rows).await?;
    }
    if !derived.newest.is_empty() {
        let newest: Vec<_> = derived.newest.values().collect();
        batch.move_latest(&newest).await?;
    }
    let moved = derived.moved.iter();
    let tracks: Vec<_> = moved
        .filter_map(|device| {
            let track = serde_json::to_string(known.tracks.get(device)?);
            let track = track.expect("texts and numbers always serialise");
            Some((device.clone(), track))
        })
        .collect();
    if !tracks.is_empty() {
        batch.put_tracks(&tracks).await?;
    }
    batch.transaction.enqueue(&derived.events).await
}
