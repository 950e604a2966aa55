//! Which dead letters are meant. Every condition that is given must hold.

use crate::event;
use crate::mapping::Letter;
use crate::message::{Subject, covers};

/// Conditions; the default is all dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these numbers; empty for any.
    pub ids: Vec<u64>,
    /// Who gave the message up: `durable`, `downlink`, `events`.
    pub origin: Option<String>,
    /// The stream of the message.
    pub stream: Option<String>,
    /// The durable.
    pub durable: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// `<productID>.<deviceName>` as in subjects.
    pub device: Option<String>,
    /// The original subject, with the wildcards `*` and `>`.
    pub subject: Option<String>,
    /// Given up at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Given up before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
}

impl Filter {
    /// The names of the conditions, as [`set`](Self::set) takes them.
    pub const KEYS: [&str; 9] = [
        "id", "origin", "stream", "durable", "reason", "device", "subject", "since", "until",
    ];

    /// Adds a condition given as text; whether there is one of this name. An empty text is no condition.
    ///
    /// `id` is a number, and may be given several times; `since` and `until` are RFC 3339 or an age such as `90s`, `10m`, `2h`, `7d`.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn set(&mut self, key: &str, value: &str, now_ms: u64) -> Result<bool, String> {
        if !Self::KEYS.contains(&key) {
            return Ok(false);
        }
        let text = Some(value.to_owned()).filter(|text| !text.is_empty());
        let Some(value) = text.clone() else {
            return Ok(true);
        };
        match key {
            "id" => {
                let id = value.parse::<u64>().ok();
                self.ids.push(id.ok_or_else(|| {
                    format!("{key}: found {value:?}, expected the number of a dead letter")
                })?);
            }
            "origin" => self.origin = text,
            "stream" => self.stream = text,
            "durable" => self.durable = text,
            "reason" => self.reason = text,
            "device" => self.device = text.map(|text| text.replacen('/', ".", 1)),
            "subject" => self.subject = text,
            _ => {
                let at = event::moment(&value, now_ms).ok_or_else(|| {
                    format!("{key}: found {value:?}, expected RFC 3339 or an age such as 90s, 10m, 2h, 7d")
                })?;
                match key {
                    "since" => self.since_ms = Some(at),
                    _ => self.until_ms = Some(at),
                }
            }
        }
        Ok(true)
    }

    /// Whether it has no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a dead letter is meant.
    #[must_use]
    pub fn matches(&self, letter: &Letter) -> bool {
        fn is(wanted: Option<&String>, found: Option<&String>) -> bool {
            wanted.is_none_or(|wanted| found == Some(wanted))
        }
        let subject = letter.subject.as_deref().unwrap_or_default();
        (self.ids.is_empty() || self.ids.contains(&letter.id))
            && is(self.origin.as_ref(), Some(&letter.origin))
            && is(self.stream.as_ref(), letter.stream.as_ref())
            && is(self.durable.as_ref(), letter.durable.as_ref())
            && is(self.reason.as_ref(), Some(&letter.reason))
            && (self.device.as_ref()).is_none_or(|device| has_tokens(subject, device))
            && (self.subject.as_ref()).is_none_or(|filter| covers(filter, subject))
            && self.since_ms.is_none_or(|since| letter.at_ms >= since)
            && self.until_ms.is_none_or(|until| letter.at_ms < until)
    }

    /// The subject of stream `DLQ` under which all that match are.
    pub(super) fn dead_subject(&self) -> Subject {
        match (&self.stream, &self.durable) {
            (Some(stream), Some(durable)) => format!("dlq.durable.{stream}.{durable}.>").into(),
            (Some(stream), None) => format!("dlq.durable.{stream}.>").into(),
            (None, Some(durable)) => format!("dlq.durable.*.{durable}.>").into(),
            (None, None) => match &self.origin {
                Some(origin) => format!("dlq.{origin}.>").into(),
                None => "dlq.>".into(),
            },
        }
    }
}

/// Whether the tokens stand in the subject one after the other.
fn has_tokens(subject: &str, tokens: &str) -> bool {
    format!(".{subject}.").contains(&format!(".{tokens}."))
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
