//! How far durables have acknowledged, kept beside them: a durable that is deleted takes that with it.
//!
//! Bucket `jetway_durables`, key `<stream>.<durable>`. What is kept of a stream that was replaced is not believed, and a durable
//! that someone else created anew, to read again, takes its floor with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::durable::{Durable, Found};
use super::stream::created;
use crate::jetstream::bucket::{self, Expect};
use crate::jetstream::{Bucket, Error, Link};

const BUCKET: &str = "jetway_durables";

/// What is kept of a durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// When its stream was created.
    stream_created: String,
    /// When it was created.
    created: String,
    /// The stream sequence up to which everything is acknowledged.
    floor: u64,
}

/// How far each durable is; cheap to clone.
#[derive(Clone)]
pub struct Floors {
    bucket: Bucket,
    /// What was written or read last, so that nothing is asked while nothing moves.
    known: Arc<Mutex<HashMap<String, Kept>>>,
}

impl Floors {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link) -> Self {
        Self {
            bucket: Bucket::new(link, BUCKET),
            known: Arc::default(),
        }
    }

    /// The kept floor of a durable in the stream that there is now.
    pub(super) async fn of(&self, link: &Link, durable: &Durable) -> Result<Option<u64>, Error> {
        let entry = self.bucket.get_from_leader(&key(durable)).await;
        let entry = entry.map_err(|error| unread(durable, &error))?;
        let Some(value) = entry.and_then(|entry| entry.value) else {
            return Ok(None);
        };
        let Ok(kept) = serde_json::from_slice::<Kept>(&value) else {
            return Ok(None);
        };
        let created = created(link, &durable.stream).await?;
        let known = created.as_deref() == Some(&*kept.stream_created) && kept.floor > 0;
        Ok(known.then_some(kept.floor))
    }

    /// Keeps how far a durable is, unless a newer state is kept.
    pub(super) async fn keep(
        &self,
        durable: &Durable,
        found: &Found,
        stream_created: &str,
    ) -> Result<(), Error> {
        let key = key(durable);
        let now = Kept {
            stream_created: stream_created.to_owned(),
            created: found.created.clone(),
            floor: found.floor,
        };
        if self
            .known()
            .get(&key)
            .is_some_and(|known| now.is_old(known))
        {
            return Ok(());
        }
        let fault = |error: bucket::Error| unread(durable, &error);
        let entry = self.bucket.get_from_leader(&key).await.map_err(fault)?;
        let kept = entry.as_ref().and_then(|entry| entry.value.as_ref());
        let kept = kept.and_then(|value| serde_json::from_slice::<Kept>(value).ok());
        if let Some(kept) = kept.filter(|kept| now.is_old(kept)) {
            self.known().insert(key, kept);
            return Ok(());
        }
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        let value = serde_json::to_vec(&now).unwrap_or_default();
        match self.bucket.put(&key, value.into(), expect, None).await {
            Ok(_revision) => {
                self.known().insert(key, now);
                Ok(())
            }
            // Another node looked at the same time; the next look compares with what it saw.
            Err(bucket::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(fault(error)),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Kept>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Whether this says nothing that the other does not.
    fn is_old(&self, other: &Self) -> bool {
        let same = self.stream_created == other.stream_created && self.created == other.created;
        same && self.floor <= other.floor
    }
}

fn key(durable: &Durable) -> String {
    format!("{}.{}", durable.stream, durable.name)
}

fn unread(durable: &Durable, error: &bucket::Error) -> Error {
    Error::Request {
        subject: format!("$KV.{BUCKET}.{}", key(durable)),
        reason: error.to_string(),
    }
}
