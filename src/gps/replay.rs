//! A device's reports written again from the stream: rows that are missing, and their events with the ids that they had.
//!
//! What is there stays as it is, and a latest position only moves forward, so it may be done at any time and again. Only what the worker
//! has passed is read: the rest is the worker's. Fences and trips are not told again, and are not changed.

use std::collections::HashSet;
use std::sync::Arc;

use super::deriving::{self, Derived, Known};
use super::queue::{Created, Input};
use super::reading::Reading;
use super::store::{Cursor, Tables};
use super::watched::Watched;
use super::writing::put;
use crate::database::{self, Fate, fate};
use crate::device::DeviceId;
use crate::jetstream::{Link, ReadError, Reader};
use crate::mapping::{DeviceFilters, Mapping};
use crate::position::Watching;

/// So often others may be in the way of one page.
const TRIES_MAX: u32 = 10;

/// What reads and writes.
pub struct Replay {
    /// NATS.
    pub link: Link,
    /// Whose a message is.
    pub mapping: Arc<Mapping>,
    /// The stream of uplinks, which event ids name.
    pub source: Arc<str>,
    /// Where it is read: that stream, or a copy of it with the same sequences.
    pub stream: String,
    /// Where positions are.
    pub watched: Arc<Watched>,
    /// Where they go.
    pub tables: Tables,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Messages of the device in the range that have a position.
    pub messages: u64,
    /// Reports that were missing.
    pub written: u64,
}

/// Why it ends before its time. What was written by then stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream.
    #[error("stream: {0}")]
    Stream(#[from] ReadError),
    /// The tables.
    #[error(transparent)]
    Tables(#[from] database::Error),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// Nothing is passed.
    #[error(
        "the worker of the device's shard has not begun: there is nothing that it could have left out"
    )]
    NotBegun,
    /// Sequences mean something else.
    #[error(
        "stream {0} is not the one that the worker has read, expected it to pass the new one's beginning first"
    )]
    Replaced(String),
}

impl Replay {
    /// Writes what is missing of a device's reports that were received in a time, Unix milliseconds.
    ///
    /// # Errors
    /// The stream or the database fails, or the worker has not begun with this stream; what was written by then stays.
    pub async fn run(
        &self,
        device: &DeviceId,
        since_ms: u64,
        until_ms: u64,
    ) -> Result<Replayed, Error> {
        self.tables.migrate().await?;
        let cursor = self.cursor(device).await?;
        let reading = Reading {
            mapping: Arc::clone(&self.mapping),
            watched: Arc::clone(&self.watched),
            source: Arc::clone(&self.source),
            shard: 0,
            shards: 1,
        };
        let created = Created {
            text: cursor.created.as_str().into(),
            ns: cursor.created_ns,
        };
        let filters = DeviceFilters::new(device).uplinks.map(Into::into);
        let up_to = u64::try_from(cursor.sequence).unwrap_or(0);
        let reader = Reader::new(&self.link, &self.stream);
        let mut backlog = reader.backlog(filters.to_vec(), 0, up_to);
        let mut known = Known::default();
        let mut replayed = Replayed::default();
        loop {
            let page = backlog.next_page().await?;
            if page.is_empty() {
                return Ok(replayed);
            }
            let inputs: Vec<Input> = page
                .iter()
                .map(|stored| reading.read(&created, stored))
                .filter(|input| input.found.is_some())
                .collect();
            let range = since_ms..until_ms;
            let is_meant = |input: &&Input| {
                let found = input.found.as_ref();
                found.is_some_and(|found| range.contains(&found.received_ms))
            };
            replayed.messages += inputs.iter().filter(is_meant).count() as u64;
            let derived = self.derive(&inputs, &mut known, since_ms, until_ms);
            replayed.written += self.write(derived, &known).await?;
        }
    }

    async fn cursor(&self, device: &DeviceId) -> Result<Cursor, Error> {
        let cursors = self.tables.cursors().await?;
        let shards = cursors.first().map(|cursor| cursor.shards);
        let shards = shards.and_then(|shards| u32::try_from(shards).ok());
        let shard = device.shard(shards.ok_or(Error::NotBegun)?);
        let cursor = self
            .tables
            .cursor(i32::try_from(shard).unwrap_or(i32::MAX))
            .await?;
        let cursor = cursor.ok_or(Error::NotBegun)?;
        let (created, _) = Reader::new(&self.link, &self.source).extent().await?;
        match cursor.created == created && *cursor.stream == *self.source {
            true => Ok(cursor),
            false => Err(Error::Replaced(self.source.to_string())),
        }
    }

    /// What the inputs say, as far as it was received in the time. All are looked at, so that it is known what was late.
    fn derive(&self, inputs: &[Input], known: &mut Known, since_ms: u64, until_ms: u64) -> Derived {
        let watching = self.watched.watching().map(|watching| Watching {
            fences: None,
            trip: None,
            ..watching
        });
        let mut derived = deriving::derive(inputs, known, &self.source, watching.as_ref());
        let is_meant =
            |ms: i64| u64::try_from(ms).is_ok_and(|ms| (since_ms..until_ms).contains(&ms));
        derived.rows.retain(|row| is_meant(row.received_ms));
        derived.newest.retain(|_, row| is_meant(row.received_ms));
        derived.moved.clear();
        derived
    }

    /// Writes what is missing; gives how many reports.
    async fn write(&self, mut derived: Derived, known: &Known) -> Result<u64, Error> {
        if derived.rows.is_empty() {
            return Ok(0);
        }
        let days = derived
            .rows
            .iter()
            .map(|row| super::store::day_of(row.received_ms));
        let days: HashSet<i64> = days.collect();
        self.tables.make_room(days.into_iter()).await?;
        let mut tries = 0;
        loop {
            match self.write_once(&mut derived, known).await {
                Err(error) if fate(&error) == Fate::Conflict && tries < TRIES_MAX => tries += 1,
                written => return Ok(written?),
            }
        }
    }

    async fn write_once(&self, derived: &mut Derived, known: &Known) -> Result<u64, sqlx::Error> {
        let mut batch = self.tables.begin().await?;
        let ids: Vec<_> = derived.rows.iter().map(|row| row.event_id).collect();
        let present = batch.present(&ids).await?.into_iter();
        let present: HashSet<_> = present.collect();
        derived.rows.retain(|row| !present.contains(&row.event_id));
        let missing: HashSet<_> = derived.rows.iter().map(|row| row.event_id).collect();
        derived
            .events
            .retain(|event| missing.contains(&event.event_id));
        put(&mut batch, derived, known).await?;
        batch.commit().await?;
        Ok(missing.len() as u64)
    }
}
