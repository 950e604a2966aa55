//! The envelope that every event of ours has, and the identity and times in it (EVENTS).

use std::fmt;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::{Builder, Uuid};

/// An event: what it is, and its data. Serialises to the JSON of EVENTS, fields in this order.
#[derive(Debug, Clone, Serialize)]
pub struct Envelope<'a, D> {
    /// A UUID of version 7, the same each time the event is made: [`derived_id`].
    #[serde(serialize_with = "as_text")]
    pub event_id: Uuid,
    /// `domain.resource.verb`
    pub event_name: &'a str,
    /// Rises with an incompatible change of the data.
    pub event_version: &'a str,
    /// When it happened.
    pub event_time: Timestamp,
    /// Who made it.
    pub producer: &'a str,
    /// 32 hex digits: the trace that goes on with it.
    pub trace_id: &'a str,
    /// What it says: an object.
    pub data: D,
}

fn as_text<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    let mut buffer = Uuid::encode_buffer();
    serializer.serialize_str(id.hyphenated().encode_lower(&mut buffer))
}

/// The JSON text of an event.
///
/// # Panics
/// Never for data of strings, numbers, raw values and structs of these: those always serialise.
#[must_use]
pub fn encode<D: Serialize>(envelope: &Envelope<'_, D>) -> Bytes {
    let body = serde_json::to_vec(envelope);
    body.expect("strings and numbers always serialise").into()
}

/// The UUID of version 7 of what happened at `time_ms`, Unix milliseconds, and is told from all else by `parts`: the same
/// time and parts give the same id, and other parts another one.
#[must_use]
pub fn derived_id(time_ms: u64, parts: &[&[u8]]) -> Uuid {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length no part runs into the next.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let mut distinct = [0; 10];
    for (to, from) in distinct.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    Builder::from_unix_timestamp_millis(time_ms, &distinct).into_uuid()
}

/// Unix milliseconds, which display and serialise as ISO 8601 in UTC: `2026-10-14T08:30:00.123Z`. Nothing after the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = i128::from(self.0) * 1_000_000;
        let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds) else {
            return Ok(());
        };
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second) = at.to_hms();
        let millisecond = at.millisecond();
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Unix milliseconds as `2026-10-14T08:30:00.123Z`.
#[must_use]
pub fn iso8601(unix_ms: u64) -> String {
    Timestamp(unix_ms).to_string()
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
