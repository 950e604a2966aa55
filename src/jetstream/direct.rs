//! Reading single messages and pages of a stream without a consumer: the requests and their answers.
//!
//! Direct gets are answered by any server that has a replica, which may lag behind; what must not lag asks the stream's
//! leader. What NATS does not answer is asked again for a while (`tries`). A page in which a message is missing, because the
//! connection broke while it came, is told by the chain of sequences in it and read again.

use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue, Request, RequestErrorKind, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::Link;
use super::stored::Stored;
use super::tries::{ApiError, Error, Failure, TRY, Tries};

/// What one page asks for, under the names of the JetStream API.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Query<'q> {
    /// From this sequence on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
    /// From this time on, RFC 3339, instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<String>,
    /// The messages of one subject filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_by_subj: Option<&'q str>,
    /// The last message of each subject that matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) multi_last: Vec<&'q str>,
    /// At most so many messages.
    pub(super) batch: usize,
    /// At most so many bytes, and at least one message.
    pub(super) max_bytes: usize,
}

/// How a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// No message matches.
    Nothing,
    /// More subjects match than `multi_last` answers.
    TooMany,
    /// So many more match behind the page; `known` is the last sequence that the answering replica has, if it said so.
    More { pending: u64, known: Option<u64> },
}

/// What the leader says about a stream.
#[derive(Debug)]
pub(super) struct Info {
    /// When it was created: another one for a stream of the same name that replaced it.
    pub(super) created: String,
    /// The last sequence that was given out, 0 before the first.
    pub(super) last_sequence: u64,
    pub(super) replicas: u64,
    /// Whether a subject matches the filter that was asked with.
    pub(super) has_subjects: bool,
}

/// For how long the number of replicas is believed, which an operator may change.
const REPLICAS_KNOWN: Duration = Duration::from_secs(10);

/// One stream, as it is asked.
pub(super) struct Direct {
    link: Link,
    stream: Box<str>,
    replicated: Mutex<Option<(Instant, bool)>>,
}

impl Direct {
    pub(super) fn new(link: &Link, stream: &str) -> Self {
        Self {
            link: link.clone(),
            stream: stream.into(),
            replicated: Mutex::new(None),
        }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    /// A page of messages in order.
    pub(super) async fn page(&self, query: &Query<'_>) -> Result<(Vec<Stored>, End), Error> {
        let subject = format!("$JS.API.DIRECT.GET.{}", self.stream);
        let body = body(query);
        let mut tries = Tries::new(&subject);
        loop {
            let page = self.try_page(&subject, query, body.clone());
            let failure = match timeout(TRY, page).await {
                Ok(Ok(page)) => return Ok(page),
                Ok(Err(failure)) => failure,
                Err(_elapsed) => Failure::Passing("no answer in time".to_owned()),
            };
            tries.again(failure).await?;
        }
    }

    async fn try_page(
        &self,
        api: &str,
        query: &Query<'_>,
        body: Bytes,
    ) -> Result<(Vec<Stored>, End), Failure> {
        let client = &self.link.client;
        let inbox = client.new_inbox();
        let mut answers = client
            .subscribe(inbox.clone())
            .await
            .map_err(Failure::passing)?;
        client
            .publish_with_reply(api.to_owned(), inbox, body)
            .await
            .map_err(Failure::passing)?;
        let mut messages = Vec::new();
        let mut last = 0;
        while let Some(answer) = answers.next().await {
            if let Some(status) = answer.status {
                // Also said when a subject's last message vanished in between: then the others are missing.
                let vanished = !query.multi_last.is_empty()
                    && answer.description.as_deref() != Some("No Results");
                if status == StatusCode::NOT_FOUND && (last > 0 || vanished) {
                    return Err(Failure::Passing("a message vanished".to_owned()));
                }
                return Ok((messages, end(status, &answer, last)?));
            }
            let broken = || Failure::Passing("a page with a gap".to_owned());
            let before = header(&answer, "Nats-Last-Sequence").and_then(|text| text.parse().ok());
            if before != Some(last) {
                return Err(broken());
            }
            let stored = Stored::read(answer).ok_or_else(broken)?;
            last = stored.sequence;
            messages.push(stored);
        }
        Err(Failure::Passing("the subscription ended".to_owned()))
    }

    /// The message with this sequence.
    pub(super) async fn at(&self, sequence: u64) -> Result<Option<Stored>, Error> {
        let api = format!("$JS.API.DIRECT.GET.{}", self.stream);
        self.one(&api, body(&serde_json::json!({ "seq": sequence })))
            .await
    }

    /// The last message of a literal subject.
    pub(super) async fn last(&self, subject: &str) -> Result<Option<Stored>, Error> {
        let api = format!("$JS.API.DIRECT.GET.{}.{subject}", self.stream);
        self.one(&api, Bytes::new()).await
    }

    async fn one(&self, api: &str, body: Bytes) -> Result<Option<Stored>, Error> {
        let mut tries = Tries::new(api);
        loop {
            match self.try_one(api, body.clone()).await {
                Ok(stored) => return Ok(stored),
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    async fn try_one(&self, api: &str, body: Bytes) -> Result<Option<Stored>, Failure> {
        let answer = self.try_request(api, HeaderMap::new(), body).await?;
        match answer.status {
            Some(StatusCode::NOT_FOUND) => Ok(None),
            Some(status) => Err(Failure::status(status, &answer)),
            None => Stored::read(answer)
                .map(Some)
                .ok_or_else(|| Failure::Final("unreadable message".to_owned())),
        }
    }

    /// A message as the stream's leader has it: `last_by_subj`, `seq`, or `seq` with `next_by_subj`.
    pub(super) async fn leader_get(&self, query: &Value) -> Result<Option<Stored>, Error> {
        const NO_MESSAGE: u64 = 10_037;
        let api = format!("$JS.API.STREAM.MSG.GET.{}", self.stream);
        let answer = match self.api(&api, query).await? {
            Ok(answer) => answer,
            Err(ApiError { err_code, .. }) if err_code == NO_MESSAGE => return Ok(None),
            Err(error) => return Err(error.refused(&api)),
        };
        let stored = answer.get("message").and_then(leader_message);
        let unreadable = || Error::Refused {
            subject: api,
            reason: "unreadable message".to_owned(),
        };
        stored.map(Some).ok_or_else(unreadable)
    }

    /// The stream's state, with whether a subject matches `filter`.
    pub(super) async fn info(&self, filter: Option<&str>) -> Result<Info, Error> {
        let api = format!("$JS.API.STREAM.INFO.{}", self.stream);
        let query = match filter {
            Some(filter) => serde_json::json!({ "subjects_filter": filter }),
            None => Value::Null,
        };
        let answer = match self.api(&api, &query).await? {
            Ok(answer) => answer,
            Err(error) => return Err(error.refused(&api)),
        };
        let number = |pointer| answer.pointer(pointer).and_then(Value::as_u64);
        let created = answer.pointer("/created").and_then(Value::as_str);
        let subjects = answer.pointer("/state/subjects").and_then(Value::as_object);
        Ok(Info {
            created: created.unwrap_or_default().to_owned(),
            last_sequence: number("/state/last_seq").unwrap_or(0),
            replicas: number("/config/num_replicas").unwrap_or(1),
            has_subjects: subjects.is_some_and(|subjects| !subjects.is_empty()),
        })
    }

    /// Whether a direct get may be answered by a replica that lags behind.
    pub(super) async fn is_replicated(&self) -> Result<bool, Error> {
        let known = *self
            .replicated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, replicated)) = known
            && asked.elapsed() < REPLICAS_KNOWN
        {
            return Ok(replicated);
        }
        let replicated = self.info(None).await?.replicas > 1;
        *self
            .replicated
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), replicated));
        Ok(replicated)
    }

    /// A JetStream API request; the inner error is the server's.
    pub(super) async fn api(
        &self,
        api: &str,
        query: &Value,
    ) -> Result<Result<Value, ApiError>, Error> {
        let body = body(query);
        let mut tries = Tries::new(api);
        loop {
            match self.try_api(api, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    async fn try_api(&self, api: &str, body: Bytes) -> Result<Result<Value, ApiError>, Failure> {
        let answer = self.try_request(api, HeaderMap::new(), body).await?;
        let mut answer: Value =
            serde_json::from_slice(&answer.payload).map_err(Failure::passing)?;
        match answer.get_mut("error").map(Value::take) {
            None => Ok(Ok(answer)),
            Some(error) => {
                let error = ApiError::deserialize(error).map_err(Failure::passing)?;
                // 503: the leader is not there yet, or too busy.
                match error.code {
                    503 => Err(Failure::Passing(error.to_string())),
                    _ => Ok(Err(error)),
                }
            }
        }
    }

    /// One request, tried once; not at all without a connection, which would only keep it until nobody waits for the answer.
    pub(super) async fn try_request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<async_nats::Message, Failure> {
        if !self.link.is_connected() {
            return Err(Failure::Passing("NATS is not connected".to_owned()));
        }
        let request = Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(TRY));
        let subject = subject.to_owned();
        self.link
            .client
            .send_request(subject, request)
            .await
            .map_err(|error| match error.kind() {
                RequestErrorKind::MaxPayloadExceeded => Failure::Final(error.to_string()),
                _ => Failure::passing(error),
            })
    }
}

/// JSON, and nothing at all for null.
fn body(query: &impl Serialize) -> Bytes {
    // Numbers and texts always serialise.
    serde_json::to_vec(query).unwrap_or_default().into()
}

fn header<'m>(message: &'m async_nats::Message, name: &str) -> Option<&'m str> {
    // The server's own stands behind one that a sender wrote.
    let value = message.headers.as_ref()?.get_last(name)?;
    Some(value.as_str())
}

fn end(status: StatusCode, answer: &async_nats::Message, last: u64) -> Result<End, Failure> {
    const NO_CONTENT: u16 = 204;
    const TOO_MANY_RESULTS: u16 = 413;
    let number = |name| header(answer, name).and_then(|text| text.parse::<u64>().ok());
    match status.as_u16() {
        404 => Ok(End::Nothing),
        TOO_MANY_RESULTS => Ok(End::TooMany),
        NO_CONTENT if number("Nats-Last-Sequence") == Some(last) => Ok(End::More {
            pending: number("Nats-Num-Pending").unwrap_or(0),
            known: number("Nats-UpTo-Sequence"),
        }),
        NO_CONTENT => Err(Failure::Passing("a page without its end".to_owned())),
        _ => Err(Failure::status(status, answer)),
    }
}

/// The `message` object of `STREAM.MSG.GET`.
fn leader_message(message: &Value) -> Option<Stored> {
    let text = |key: &str| message.get(key).and_then(Value::as_str);
    let decoded = |key| STANDARD.decode(text(key).unwrap_or_default()).ok();
    let block = String::from_utf8(decoded("hdrs")?).ok()?;
    let mut headers = HeaderMap::new();
    for line in block.split("\r\n").skip(1) {
        if let Some((name, value)) = line.split_once(':') {
            let name = HeaderName::from_str(name).ok()?;
            headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
        }
    }
    let sequence = message.get("seq")?.as_u64()?;
    let time = text("time")?;
    Stored::new(
        text("subject")?.into(),
        sequence,
        time,
        Some(&headers),
        decoded("data")?.into(),
    )
}
