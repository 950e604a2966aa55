//! A key-value bucket by plain requests: reads, writes on condition, lifetimes, changes.
//!
//! A write may be tried several times, since an answer can be lost. Each write has a number of its own in a header, so a
//! condition that fails because the write itself was stored before is told from one that another writer broke.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::backlog::Backlog;
use super::direct::Direct;
use super::feed::{Fed, Feed};
use super::reader::{self, Lasts};
use super::shard::wire_headers;
use super::tries::{ApiError, Failure, Tries};
use super::{Link, ReadError, Reader, Stored};
use crate::message::{Message, Subject};
use crate::telemetry;

const WRITE: &str = "Jw-Write";
const OPERATION: &str = "KV-Operation";
/// Behind a marker of this kind the server writes no second one when its time is over, as it does behind `DEL`.
const PURGE: &str = "PURGE";
const TTL: &str = "Nats-TTL";
const MARKER_REASON: &str = "Nats-Marker-Reason";

/// The last token but one of a key that marks what a node has, gone when the node is lost; the last one is the node. No name of a
/// product or device is encoded so.
pub const NODE_MARK: &str = "%node";

/// Why a key could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key is not at the revision that the writer expected; nothing was written.
    #[error("bucket {bucket}: key {key} was changed by another writer")]
    Conflict {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// No usable answer. After a write that means: it may or may not be stored.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the bucket's stream; a writer that expects it finds out about every other write.
    pub revision: u64,
    /// None if the key was deleted or its time was over, and that is still known.
    pub value: Option<Bytes>,
    /// When it was written, in Unix milliseconds.
    pub time_ms: u64,
}

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// None: the last writer wins. A write whose answer was lost is repeated, and may overtake a newer one of somebody else.
    Any,
    /// The bucket knows nothing of the key, not even that it was deleted.
    Absent,
    /// The key's last write, or its deletion, has this revision.
    Revision(u64),
}

/// A change in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A key was written or deleted, or its time was over.
    Entry(String, Entry),
    /// The bucket is empty: it lived in memory and its server is another one, or it was created anew. The entries of before
    /// are gone, and nothing else will tell.
    Reset,
}

/// One bucket; cheap to clone. The stream `KV_<name>` must be there, with `allow_direct` and `allow_msg_ttl`.
#[derive(Clone)]
pub struct Bucket {
    name: Arc<str>,
    reader: Reader,
}

impl Bucket {
    /// The bucket of this name; nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link, name: &str) -> Self {
        Self {
            name: name.into(),
            reader: Reader::new(link, &format!("KV_{name}")),
        }
    }

    fn direct(&self) -> &Direct {
        &self.reader.direct
    }

    /// The subject of a key or of a filter over keys: `$KV.<bucket>.<key>`.
    #[must_use]
    pub fn subject(&self, key: &str) -> Subject {
        format!("$KV.{}.{key}", self.name).into()
    }

    /// What the key holds; a replica that lags behind may answer. None if the bucket knows nothing of it.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let stored = self.direct().last(&self.subject(key)).await?;
        Ok(stored.map(entry))
    }

    /// What many keys hold, with few requests; a replica that lags behind may answer. Keys of which the bucket knows nothing
    /// are left out.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn get_all(&self, keys: &[&str]) -> Result<HashMap<String, Entry>, Error> {
        let mut found = HashMap::with_capacity(keys.len());
        let prefix = self.subject("");
        for keys in keys.chunks(reader::SUBJECTS_MAX) {
            let subjects: Vec<Subject> = keys.iter().map(|key| self.subject(key)).collect();
            if let Lasts::Found { messages, .. } =
                self.reader.lasts(&subjects, 0, usize::MAX).await?
            {
                let entries = messages
                    .into_iter()
                    .map(|stored| key_entry(&prefix, stored));
                found.extend(entries);
            }
        }
        Ok(found)
    }

    /// Whether a replica may lag behind.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn is_replicated(&self) -> Result<bool, Error> {
        Ok(self.direct().is_replicated().await?)
    }

    /// What the key holds, as the stream's leader has it.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn get_from_leader(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(self.last_write(key).await?.map(entry))
    }

    /// The first key that matches `filter` of those written at `from` or later, with what it holds, as the stream's leader has it.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn next_from_leader(
        &self,
        filter: &str,
        from: u64,
    ) -> Result<Option<(String, Entry)>, Error> {
        let query = json!({ "seq": from, "next_by_subj": &*self.subject(filter) });
        let stored = self.direct().leader_get(&query).await?;
        Ok(stored.map(|stored| key_entry(&self.subject(""), stored)))
    }

    async fn last_write(&self, key: &str) -> Result<Option<Stored>, ReadError> {
        let query = json!({ "last_by_subj": &*self.subject(key) });
        self.direct().leader_get(&query).await
    }

    /// Writes a value, gone after `ttl` (whole seconds, rounded up); gives its revision.
    ///
    /// # Errors
    /// [`Error::Conflict`] when `expected` does not hold, [`Error::Read`].
    pub async fn put(
        &self,
        key: &str,
        value: Bytes,
        expected: Expect,
        ttl: Option<Duration>,
    ) -> Result<u64, Error> {
        self.write(key, HeaderMap::new(), value, expected, ttl)
            .await
    }

    /// Writes a message as it is under its own subject, which is one of the bucket's. One without payload deletes the key as
    /// [`delete`](Self::delete) does. Gives its revision.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn put_message(
        &self,
        message: &Message,
        expected: Expect,
        marker_ttl: Duration,
    ) -> Result<u64, Error> {
        let prefix = self.subject("");
        let key = message.subject.strip_prefix(&*prefix).unwrap_or_default();
        let mut headers = wire_headers(&message.headers);
        let is_marker = message.payload.is_empty();
        if is_marker {
            headers.insert(OPERATION, PURGE);
        }
        let ttl = is_marker.then_some(marker_ttl);
        self.write(key, headers, message.payload.clone(), expected, ttl)
            .await
    }

    /// Deletes a key; that it was deleted is known for `marker_ttl`, then nothing is left of it. Gives the deletion's
    /// revision.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn delete(
        &self,
        key: &str,
        expected: Expect,
        marker_ttl: Duration,
    ) -> Result<u64, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, PURGE);
        self.write(key, headers, Bytes::new(), expected, Some(marker_ttl))
            .await
    }

    async fn write(
        &self,
        key: &str,
        mut headers: HeaderMap,
        value: Bytes,
        expected: Expect,
        ttl: Option<Duration>,
    ) -> Result<u64, Error> {
        let number = format!("{:016x}", telemetry::random_u64());
        headers.insert(WRITE, number.as_str());
        if let Some(ttl) = ttl {
            let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
            headers.insert(TTL, seconds.max(1).to_string());
        }
        let last = match expected {
            Expect::Any => None,
            Expect::Absent => Some(0),
            Expect::Revision(revision) => Some(revision),
        };
        if let Some(last) = last {
            headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
        }
        let subject = self.subject(key);
        let mut tries = Tries::new(&subject);
        let written = loop {
            let write = self.try_write(&subject, headers.clone(), value.clone());
            match write.await {
                Ok(written) => break written,
                Err(failure) => tries.again(failure).await?,
            }
        };
        if let Some(revision) = written {
            return Ok(revision);
        }
        // It may be this very write, whose answer was lost, that stands in its own way.
        let own = match tries.is_first() {
            true => None,
            false => self.last_write(key).await?,
        };
        let own = own.filter(|last| last.message.headers.get(WRITE) == Some(&number));
        let conflict = || Error::Conflict {
            bucket: self.name.to_string(),
            key: key.to_owned(),
        };
        own.map(|own| own.sequence).ok_or_else(conflict)
    }

    /// Gives the revision; none if the condition does not hold.
    async fn try_write(
        &self,
        subject: &str,
        headers: HeaderMap,
        value: Bytes,
    ) -> Result<Option<u64>, Failure> {
        #[derive(Deserialize)]
        struct PublishAck {
            seq: Option<u64>,
            error: Option<ApiError>,
        }
        const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
        // Full, which has the code of a passing failure too.
        const FULL: [u64; 4] = [10_077, 10_047, 10_028, 10_002];
        let answer = self.direct().try_request(subject, headers, value).await?;
        let ack: PublishAck = serde_json::from_slice(&answer.payload).map_err(Failure::passing)?;
        match ack {
            PublishAck {
                error: Some(error), ..
            } => match error.code {
                _ if WRONG_LAST_SEQUENCE.contains(&error.err_code) => Ok(None),
                503 if !FULL.contains(&error.err_code) => Err(Failure::passing(error)),
                _ => Err(Failure::Final(error.to_string())),
            },
            PublishAck { seq, .. } => match seq {
                Some(revision) => Ok(Some(revision)),
                None => Err(Failure::Passing("an answer without a sequence".to_owned())),
            },
        }
    }

    /// All keys that match (`>` for all), in the order in which they were written, page by page. The whole bucket is
    /// walked. A key that is written meanwhile may come again, with its newer revision.
    #[must_use]
    pub fn scan(&self, filter: &str) -> Scan {
        let backlog = Backlog::all(self.reader.clone(), vec![self.subject(filter)]);
        Scan {
            prefix: self.subject(""),
            backlog,
        }
    }

    /// All keys that match as they are now, and then every change.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn watch(&self, filter: &str) -> Result<Watch, Error> {
        let filters = [self.subject(filter)];
        let direct = self.direct();
        let feed = Feed::from_first(direct.link(), direct.stream(), &filters).await?;
        Ok(Watch {
            prefix: self.subject(""),
            feed,
        })
    }
}

/// The keys of a bucket, page by page.
pub struct Scan {
    prefix: Subject,
    backlog: Backlog,
}

impl Scan {
    /// The next keys that hold something, with what they hold; none when all are read.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn next_page(&mut self) -> Result<Vec<(String, Entry)>, Error> {
        loop {
            let page = self.backlog.next_page().await?;
            let end = page.is_empty();
            let keys = page
                .into_iter()
                .map(|stored| key_entry(&self.prefix, stored));
            let keys: Vec<_> = keys.filter(|(_, entry)| entry.value.is_some()).collect();
            if end || !keys.is_empty() {
                return Ok(keys);
            }
        }
    }
}

/// The changes of a bucket.
pub struct Watch {
    prefix: Subject,
    feed: Feed,
}

impl Watch {
    /// The next change; waits as long as it takes, whatever happens to NATS. May be dropped and called again.
    pub async fn next(&mut self) -> Change {
        match self.feed.next().await {
            Fed::Reset(_) => Change::Reset,
            Fed::Message(stored) => {
                let (key, entry) = key_entry(&self.prefix, stored);
                Change::Entry(key, entry)
            }
        }
    }
}

fn key_entry(prefix: &str, stored: Stored) -> (String, Entry) {
    let subject = &stored.message.subject;
    let key = subject.strip_prefix(prefix).unwrap_or(subject).to_owned();
    (key, entry(stored))
}

fn entry(stored: Stored) -> Entry {
    let headers = &stored.message.headers;
    let gone = headers.get(OPERATION).is_some() || headers.get(MARKER_REASON).is_some();
    Entry {
        revision: stored.sequence,
        value: (!gone).then_some(stored.message.payload),
        time_ms: stored.time_ms,
    }
}
