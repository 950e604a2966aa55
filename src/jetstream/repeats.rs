//! Whether a message is in its stream already, for publishers that come back to one after the stream has forgotten its id.
//!
//! A stream knows the `Nats-Msg-Id` of its duplicate window by heart. Of what is older only the messages themselves tell: those of
//! the subject are read from a time on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::MSG_ID;
use super::direct::{Direct, End, Query};
use super::{Link, ReadError, Stored};
use crate::event;
use crate::message::covers;

/// For how long the settings of the streams are believed, which an operator may change.
const BELIEVED: Duration = Duration::from_secs(10);
/// Most messages, and bytes, of one answer.
const PAGE_MESSAGES_MAX: usize = 256;
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// A stream, as far as repeats matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Its name.
    pub stream: Box<str>,
    /// For how long it knows ids by heart.
    pub window: Duration,
    subjects: Vec<String>,
}

/// Looks for messages in streams.
pub struct Repeats {
    link: Link,
    streams: Mutex<Option<(Instant, Arc<[Memory]>)>>,
}

impl Repeats {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link) -> Self {
        Self {
            link: link.clone(),
            streams: Mutex::new(None),
        }
    }

    /// The stream that takes a subject; none if there is none.
    ///
    /// # Errors
    /// [`ReadError`]
    pub async fn memory(&self, subject: &str) -> Result<Option<Memory>, ReadError> {
        let streams = self.streams().await?;
        let takes = |memory: &&Memory| memory.subjects.iter().any(|own| covers(own, subject));
        Ok(streams.iter().find(takes).cloned())
    }

    /// The ids of the messages that a stream has on a subject since a time in Unix milliseconds.
    ///
    /// # Errors
    /// [`ReadError`]; also while the replica that answers has not caught up.
    pub async fn ids_since(
        &self,
        stream: &str,
        subject: &str,
        since_ms: u64,
    ) -> Result<HashSet<String>, ReadError> {
        let direct = Direct::new(&self.link, stream);
        let mut ids = HashSet::new();
        let mut last = 0;
        let mut query = Query {
            start_time: Some(event::iso8601(since_ms)),
            next_by_subj: Some(subject),
            batch: PAGE_MESSAGES_MAX,
            max_bytes: PAGE_BYTES_MAX,
            ..Query::default()
        };
        loop {
            let (messages, end) = direct.page(&query).await?;
            last = messages.last().map_or(last, |stored| stored.sequence);
            ids.extend(messages.iter().filter_map(id));
            match end {
                End::More { pending, .. } if pending > 0 && !messages.is_empty() => {
                    query.start_time = None;
                    query.seq = Some(last + 1);
                }
                _ => break,
            }
        }
        if direct.is_replicated().await? {
            catch_up(&direct, subject, since_ms, last, &mut ids).await?;
        }
        Ok(ids)
    }

    async fn streams(&self) -> Result<Arc<[Memory]>, ReadError> {
        let known = self.known().clone();
        if let Some((asked, streams)) = known
            && asked.elapsed() < BELIEVED
        {
            return Ok(streams);
        }
        let api = "$JS.API.STREAM.LIST";
        let direct = Direct::new(&self.link, "");
        let mut streams = Vec::new();
        loop {
            let query = json!({ "offset": streams.len() });
            let answer = direct.api(api, &query).await?;
            let answer = answer.map_err(|error| error.refused(api))?;
            let page = answer.get("streams").and_then(Value::as_array);
            let page = page.map(Vec::as_slice).unwrap_or_default();
            streams.extend(page.iter().filter_map(memory));
            let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
            if page.is_empty() || streams.len() as u64 >= total {
                break;
            }
        }
        let streams: Arc<[Memory]> = streams.into();
        *self.known() = Some((Instant::now(), Arc::clone(&streams)));
        Ok(streams)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<[Memory]>)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the leader has behind the last message that a replica gave.
async fn catch_up(
    direct: &Direct,
    subject: &str,
    since_ms: u64,
    mut last: u64,
    ids: &mut HashSet<String>,
) -> Result<(), ReadError> {
    if last == 0 {
        let newest = direct
            .leader_get(&json!({ "last_by_subj": subject }))
            .await?;
        return match newest {
            Some(stored) if stored.time_ms >= since_ms => Err(ReadError::Unanswered {
                subject: subject.to_owned(),
                reason: "the replica that answered lags behind".to_owned(),
            }),
            _ => Ok(()),
        };
    }
    loop {
        let query = json!({ "seq": last + 1, "next_by_subj": subject });
        let Some(stored) = direct.leader_get(&query).await? else {
            return Ok(());
        };
        last = stored.sequence;
        ids.extend(id(&stored));
    }
}

fn id(stored: &Stored) -> Option<String> {
    stored.message.headers.get(MSG_ID).map(str::to_owned)
}

/// From an entry of `STREAM.LIST`. A stream that copies another one has no subjects of its own.
fn memory(stream: &Value) -> Option<Memory> {
    let config = stream.get("config")?;
    let subjects = config.get("subjects").and_then(Value::as_array);
    let subjects = subjects.map(Vec::as_slice).unwrap_or_default();
    let window = config.get("duplicate_window").and_then(Value::as_u64);
    Some(Memory {
        stream: config.get("name")?.as_str()?.into(),
        window: Duration::from_nanos(window.unwrap_or(0)),
        subjects: subjects
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}
