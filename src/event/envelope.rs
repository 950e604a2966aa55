//! The envelope that every event of ours has, and the identity and times in it (EVENTS).

use std::fmt;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::{Builder, Uuid};

/// What the JSON of most events takes, in bytes: it need not grow then.
const BODY_BYTES: usize = 640;

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
    let mut body = Vec::with_capacity(BODY_BYTES);
    serde_json::to_writer(&mut body, envelope).expect("strings and numbers always serialise");
    body.into()
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

/// The W3C trace context of a stored message that has none: the same each time, for everybody who reads it.
#[must_use]
pub fn derived_trace(received_ms: u64, stream: &str, sequence: u64) -> String {
    let parts: [&[u8]; 3] = [stream.as_bytes(), &sequence.to_be_bytes(), b"trace"];
    let trace = derived_id(received_ms, &parts).simple().to_string();
    let span = trace.get(16..).unwrap_or_default();
    format!("00-{trace}-{span}-01")
}

/// Unix milliseconds, which display and serialise as ISO 8601 in UTC: `2026-10-14T08:30:00.123Z`. Nothing after the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Its text; none after the year 9999. Every event has some of these, so the digits are written by hand.
    fn text(self) -> Option<[u8; 24]> {
        let nanoseconds = i128::from(self.0) * 1_000_000;
        let at = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()?;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let (hour, minute, second) = at.to_hms();
        for (range, number) in [
            (0..4, at.year().unsigned_abs()),
            (5..7, u8::from(at.month()).into()),
            (8..10, at.day().into()),
            (11..13, hour.into()),
            (14..16, minute.into()),
            (17..19, second.into()),
            (20..23, at.millisecond().into()),
        ] {
            let mut rest = number;
            for digit in text.get_mut(range)?.iter_mut().rev() {
                *digit += u8::try_from(rest % 10).ok()?;
                rest /= 10;
            }
        }
        Some(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        f.write_str(text.as_ref().map_or("", |text| as_str(text)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text();
        serializer.serialize_str(text.as_ref().map_or("", |text| as_str(text)))
    }
}

fn as_str(text: &[u8]) -> &str {
    str::from_utf8(text).expect("digits are written only")
}

/// Unix milliseconds as `2026-10-14T08:30:00.123Z`.
#[must_use]
pub fn iso8601(unix_ms: u64) -> String {
    Timestamp(unix_ms).to_string()
}

/// A time in Unix milliseconds, as operators write it: RFC 3339, or an age such as `90s`, `10m`, `2h`, `7d`; none for any other text.
#[must_use]
pub fn moment(text: &str, now_ms: u64) -> Option<u64> {
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        return u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok();
    }
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let age = number.parse::<u64>().ok()?.checked_mul(seconds * 1_000)?;
    Some(now_ms.saturating_sub(age))
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
