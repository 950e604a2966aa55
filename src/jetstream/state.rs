//! What a stream and its durable consumers say about themselves now: one request each, tried once.
//!
//! For those who look every few seconds: a look that fails is followed by the next one, so nothing is tried again here.

use async_nats::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Reader;
use super::tries::{Error, Failure};

/// A stream at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Messages that it holds.
    pub messages: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// The sequence of the oldest; of the next one if there is none.
    pub first_sequence: u64,
    /// The last sequence that was given out, 0 before the first.
    pub last_sequence: u64,
    /// When the oldest was stored, in Unix milliseconds; none while the stream is empty.
    pub oldest_ms: Option<u64>,
    /// When the stream was created: another time means another stream of the same name.
    pub created: String,
}

/// A durable consumer at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurableState {
    /// Messages that it has not delivered yet: its lag.
    pub pending: u64,
    /// Messages that are delivered and not acknowledged.
    pub ack_pending: u64,
    /// How many of those were delivered more than once.
    pub redelivered: u64,
    /// Pulls that wait for messages.
    pub waiting: u64,
    /// Deliveries so far, counted by the consumer.
    pub delivered: u64,
    /// All of its messages up to this stream sequence are acknowledged.
    pub ack_floor: u64,
    /// What it selects; nothing means all.
    pub filters: Vec<String>,
    /// Of how many acknowledgements in a hundred it tells; 0: of none.
    pub sample_percent: u64,
}

#[derive(Deserialize)]
struct StreamInfo {
    created: String,
    state: RawState,
}

#[derive(Deserialize)]
struct RawState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
    first_ts: String,
}

#[derive(Deserialize)]
struct ConsumerInfo {
    delivered: Position,
    ack_floor: Position,
    num_pending: u64,
    num_ack_pending: u64,
    num_redelivered: u64,
    num_waiting: u64,
    config: ConsumerConfig,
}

#[derive(Deserialize)]
struct Position {
    consumer_seq: u64,
    stream_seq: u64,
}

#[derive(Deserialize)]
struct ConsumerConfig {
    filter_subject: Option<String>,
    #[serde(default)]
    filter_subjects: Vec<String>,
    sample_freq: Option<String>,
}

impl Reader {
    /// The stream's state; none if there is no such stream.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn state(&self) -> Result<Option<StreamState>, Error> {
        let api = format!("$JS.API.STREAM.INFO.{}", self.direct.stream());
        let info: Option<StreamInfo> = self.ask(&api, &Value::Null).await?;
        Ok(info.map(|StreamInfo { created, state }| StreamState {
            messages: state.messages,
            bytes: state.bytes,
            first_sequence: state.first_seq,
            last_sequence: state.last_seq,
            oldest_ms: unix_ms(&state.first_ts).filter(|_| state.messages > 0),
            created,
        }))
    }

    /// The state of one of its durable consumers; none if there is none of that name.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn durable(&self, name: &str) -> Result<Option<DurableState>, Error> {
        let api = format!("$JS.API.CONSUMER.INFO.{}.{name}", self.direct.stream());
        let info: Option<ConsumerInfo> = self.ask(&api, &Value::Null).await?;
        Ok(info.map(|info| DurableState {
            pending: info.num_pending,
            ack_pending: info.num_ack_pending,
            redelivered: info.num_redelivered,
            waiting: info.num_waiting,
            delivered: info.delivered.consumer_seq,
            ack_floor: info.ack_floor.stream_seq,
            sample_percent: sample_percent(info.config.sample_freq.as_deref()),
            filters: match info.config.filter_subject {
                Some(filter) if !filter.is_empty() => vec![filter],
                _ => info.config.filter_subjects,
            },
        }))
    }

    /// When the first message behind `after` that one of the filters selects was stored, in Unix milliseconds; none if there
    /// is no such message.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::Refused`].
    pub async fn first_behind(&self, after: u64, filters: &[String]) -> Result<Option<u64>, Error> {
        #[derive(Deserialize)]
        struct Found {
            message: Place,
        }
        #[derive(Deserialize)]
        struct Place {
            time: String,
        }
        let api = format!("$JS.API.STREAM.MSG.GET.{}", self.direct.stream());
        let everything = [">".to_owned()];
        let filters = if filters.is_empty() {
            &everything
        } else {
            filters
        };
        let mut first = None;
        for filter in filters {
            let query = json!({ "seq": after.saturating_add(1), "next_by_subj": filter });
            let found: Option<Found> = self.ask(&api, &query).await?;
            let time = found.and_then(|found| unix_ms(&found.message.time));
            first = first.into_iter().chain(time).min();
        }
        Ok(first)
    }

    /// One API request; none if what it asks about does not exist.
    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        api: &str,
        query: &Value,
    ) -> Result<Option<T>, Error> {
        const NOT_FOUND: [u64; 3] = [10_059, 10_014, 10_037];
        let body = match query {
            Value::Null => String::new(),
            query => query.to_string(),
        };
        let unanswered = |reason: String| Error::Unanswered {
            subject: api.to_owned(),
            reason,
        };
        let asked = self.direct.try_request(api, HeaderMap::new(), body.into());
        let answer = asked.await.map_err(|failure| match failure {
            Failure::Passing(reason) | Failure::Final(reason) => unanswered(reason),
        })?;
        let answer: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| unanswered(format!("unreadable answer: {error}")))?;
        if let Some(error) = answer.get("error") {
            let code = error.get("err_code").and_then(Value::as_u64);
            return match code.is_some_and(|code| NOT_FOUND.contains(&code)) {
                true => Ok(None),
                false => Err(Error::Refused {
                    subject: api.to_owned(),
                    reason: error.to_string(),
                }),
            };
        }
        T::deserialize(answer)
            .map(Some)
            .map_err(|error| unanswered(format!("unreadable answer: {error}")))
    }
}

fn unix_ms(time: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(time, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

/// `100` or `100%`, as the server keeps it.
fn sample_percent(frequency: Option<&str>) -> u64 {
    let number = frequency.map(|text| text.trim_end_matches('%').parse().unwrap_or(0));
    number.unwrap_or(0).min(100)
}
