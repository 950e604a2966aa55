//! Dead letters as they are read: what they say, and the message that one becomes when it is replayed.
//!
//! A dead letter of a durable goes to `replay.<durable>.<original subject>`, which that durable alone selects; one of a downlink goes
//! to its device again. It has the original's bytes and headers, without what a dead letter says about itself.

use super::fallen::{
    ATTEMPTS, DETAIL, DURABLE, FIRST_TS, OMITTED, ORIGINAL, OWN, REASON, REPLAY, STREAM,
};
use super::header;
use super::rules::Mapping;
use super::subject::{SUBJECT_BYTES_MAX, is_filter, replay_subject};
use crate::message::{Headers, Message};

/// Why a dead letter cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreplayable {
    /// There is nobody who takes it a second time.
    #[error("dead letters of {0} cannot be replayed: send the message again, or drop it")]
    Origin(String),
    /// The original bytes are not in it.
    #[error("the original message is not in it: {0}")]
    Omitted(String),
    /// It does not say where it came from.
    #[error("header {0}: missing or unusable")]
    Header(&'static str),
}

/// What a dead letter says about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Letter {
    /// Its sequence in stream `DLQ`.
    pub id: u64,
    /// Who gave the message up: the second token of its subject, such as `durable`, `downlink`, `events`.
    pub origin: String,
    /// Why.
    pub reason: String,
    /// More about it: a service's words, a rule, a path.
    pub detail: Option<String>,
    /// The stream of the message.
    pub stream: Option<String>,
    /// The durable.
    pub durable: Option<String>,
    /// The original subject.
    pub subject: Option<String>,
    /// The message's place in its stream.
    pub sequence: Option<u64>,
    /// How often it was delivered.
    pub attempts: Option<u64>,
    /// When it was stored at first, Unix milliseconds.
    pub first_ms: Option<u64>,
    /// When it was given up, Unix milliseconds.
    pub at_ms: u64,
    /// How often it was replayed.
    pub replays: u64,
    /// 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// Of the original payload.
    pub bytes: usize,
    /// Why it cannot be replayed.
    pub unreplayable: Option<String>,
}

impl Letter {
    /// What the message of stream `DLQ` with this sequence says, which was stored at `stored_ms`.
    #[must_use]
    pub fn read(id: u64, dead: &Message, stored_ms: u64) -> Self {
        let text = |name: &str| {
            let value = dead.headers.get(name)?;
            Some(header::text(value).into_owned())
        };
        let number = |name: &str| dead.headers.get(name)?.parse::<u64>().ok();
        let detail = [DETAIL, "Jw-Rule", "Jw-Path"];
        let detail: Vec<String> = detail.iter().filter_map(|name| text(name)).collect();
        let trace = dead.headers.get(header::TRACEPARENT);
        Self {
            id,
            origin: origin(dead).to_owned(),
            reason: text(REASON).unwrap_or_default(),
            detail: (!detail.is_empty()).then(|| detail.join(", ")),
            stream: text(STREAM),
            durable: text(DURABLE),
            subject: dead.headers.get(header::SUBJECT).map(str::to_owned),
            sequence: number(header::KEPT_SEQUENCE),
            attempts: number(ATTEMPTS),
            first_ms: number(FIRST_TS),
            at_ms: number(header::TS).unwrap_or(stored_ms),
            replays: number(REPLAY).unwrap_or_default(),
            trace_id: trace.and_then(|trace| Some(trace.split('-').nth(1)?.to_owned())),
            bytes: dead.payload.len(),
            unreplayable: Mapping::replay(id, dead)
                .err()
                .map(|error| error.to_string()),
        }
    }
}

impl Mapping {
    /// The message that a dead letter becomes when it is replayed. The same dead letter gives the same message id each time.
    ///
    /// # Errors
    /// Why nobody would take it.
    pub fn replay(id: u64, dead: &Message) -> Result<Message, Unreplayable> {
        let origin = origin(dead);
        if !matches!(origin, "durable" | "downlink") {
            return Err(Unreplayable::Origin(origin.to_owned()));
        }
        if let Some(omitted) = dead.headers.get(OMITTED) {
            return Err(Unreplayable::Omitted(omitted.to_owned()));
        }
        let original = dead.headers.get(header::SUBJECT).unwrap_or_default();
        let literal = is_filter(original) && !original.split('.').any(|t| t == "*" || t == ">");
        if !literal || original.len() > SUBJECT_BYTES_MAX {
            return Err(Unreplayable::Header(header::SUBJECT));
        }
        let mut headers = original_headers(dead);
        headers.push(header::MSG_ID, format!("replay.{id}"));
        let subject = match origin {
            "downlink" if original.starts_with("device.down.") => {
                // Its time is over, or soon; it has the usual one again.
                headers.remove(header::EXPIRES);
                original.into()
            }
            // Everybody who subscribes would get it again.
            "downlink" => return Err(Unreplayable::Origin(original.to_owned())),
            _ => {
                let durable = dead.headers.get(DURABLE);
                let durable = durable.ok_or(Unreplayable::Header(DURABLE))?;
                let replays = headers
                    .get(REPLAY)
                    .and_then(|text| text.parse::<u64>().ok());
                headers.remove(REPLAY);
                headers.push(REPLAY, (replays.unwrap_or_default() + 1).to_string());
                headers.remove(header::SUBJECT);
                headers.push(header::SUBJECT, original);
                replay_subject(durable, original)
            }
        };
        Ok(Message {
            subject,
            headers,
            payload: dead.payload.clone(),
        })
    }
}

fn origin(dead: &Message) -> &str {
    let rest = dead.subject.strip_prefix("dlq.").unwrap_or_default();
    rest.split('.').next().unwrap_or_default()
}

/// The headers of the original message.
fn original_headers(dead: &Message) -> Headers {
    let mut headers = Headers::with_capacity(512);
    for (name, value) in dead.headers.iter() {
        let own = OWN.contains(&name) || header::is_servers(name);
        if let Some(original) = name.strip_prefix(ORIGINAL) {
            headers.push(original, value);
        } else if !own {
            headers.push(name, value);
        }
    }
    headers
}
