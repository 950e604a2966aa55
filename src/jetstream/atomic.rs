//! Atomic batches (nats-server ≥ 2.12, stream setting `allow_atomic`): all messages are stored, in one piece, or none is.
//!
//! As tried with nats-server 2.15, and relied on here:
//! - `Nats-Expected-Last-Subject-Sequence` may stand in any message of a batch, and is checked when it is committed: 10071, or
//!   10164 while another batch with that subject is being stored. In a batch it looks at what was stored before the batch, so
//!   only the first message of a subject may have it. `Nats-Rollup: sub` may stand in a message whose subject is no other's in
//!   the batch. `Nats-TTL` and `Nats-Msg-Id` may stand anywhere, but one id that is known refuses the whole batch (10201).
//! - At most 1,000 messages (10199). What is wrong with a message inside is told at the commit, as 10176 (incomplete) or by its
//!   own code: the commit alone needs an answer.
//! - An open batch is in the memory of the leader and gone after 10 s, or with the leader: its commit is answered 10176, and
//!   with 503 (no responders) while there is no leader. 50 may be open in a stream (10210).
//! - A commit without an answer may be stored or not; `kill -9` of the server never left a part of a batch.
//! - Its messages are ordinary publishes: who subscribes to their subjects without a consumer gets them at once, also those of a
//!   batch that is never stored. Consumers get what is stored.
//! - On file storage a commit costs a sync, some milliseconds: worth it for many messages, slow for few.

use std::time::Duration;

use async_nats::{HeaderMap, Request, RequestErrorKind, StatusCode};
use serde::Deserialize;

use super::Link;
use super::shard::wire_headers;
use super::tries::ApiError;
use crate::message::Message;
use crate::telemetry;

/// The most messages that one batch takes.
pub const MESSAGES_MAX: usize = 1_000;

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";

/// The headers that a batch adds to a message, on the wire, at most.
pub const HEADERS_BYTES: usize = 100;

/// Where a batch is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The stream sequence of its last message; those before it have the sequences before.
    pub sequence: u64,
    /// How many messages it had.
    pub count: usize,
}

/// Why a batch is not stored, or not known to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A subject's last message is not the one that the batch expects; nothing was stored.
    #[error("another message was stored before: {0}")]
    Conflict(String),
    /// What the batch has in it is refused, each time again; nothing was stored.
    #[error("refused: {0}")]
    Refused(String),
    /// A message in it did not come to the batch: it was lost on its way, or is refused; nothing was stored.
    #[error("incomplete: {0}")]
    Incomplete(String),
    /// The stream takes nothing now, or no batches at all; nothing was stored, and the same batch may be stored later.
    #[error("not now: {0}")]
    NotNow(String),
    /// No answer: it may be stored, now or a little later, or not.
    #[error("no answer: {0}")]
    Unanswered(String),
}

/// Stores all messages or none, in their order, and waits at most `limit` for the answer. One message alone is published
/// without a batch, which any stream takes. What must be true of the stream stands in the messages' own headers.
///
/// # Errors
/// [`Error`]; only after [`Error::Unanswered`] it is unknown whether anything was stored.
pub async fn commit(
    link: &Link,
    messages: &[Message],
    limit: Duration,
) -> Result<Committed, Error> {
    let Some((last, before)) = messages.split_last() else {
        return Err(Error::Refused("a batch without messages".to_owned()));
    };
    if !link.is_connected() {
        return Err(Error::NotNow("NATS is not connected".to_owned()));
    }
    let id = (!before.is_empty()).then(|| format!("{:016x}", telemetry::random_u64()));
    let headers = |number: usize, message: &Message| {
        let mut headers = wire_headers(&message.headers);
        if let Some(id) = &id {
            headers.insert(BATCH_ID, id.as_str());
            headers.insert(BATCH_SEQUENCE, number.to_string());
        }
        headers
    };
    for (number, message) in (1..).zip(before) {
        let subject = message.subject.to_string();
        let publish = link.client.publish_with_headers(
            subject,
            headers(number, message),
            message.payload.clone(),
        );
        // Nothing is stored without the commit.
        let published = tokio::time::timeout(limit, publish).await;
        let published =
            published.map_err(|_elapsed| Error::NotNow("NATS takes nothing".to_owned()))?;
        published.map_err(|error| Error::Refused(error.to_string()))?;
    }
    let mut headers = headers(messages.len(), last);
    if id.is_some() {
        headers.insert(BATCH_COMMIT, "1");
    }
    let sequence = ask(link, last, headers, limit).await?;
    Ok(Committed {
        sequence,
        count: messages.len(),
    })
}

/// Publishes the last message; gives the sequence of the answer.
async fn ask(
    link: &Link,
    message: &Message,
    headers: HeaderMap,
    limit: Duration,
) -> Result<u64, Error> {
    let request = Request::new()
        .headers(headers)
        .payload(message.payload.clone())
        .timeout(Some(limit));
    let subject = message.subject.to_string();
    let answer = link.client.send_request(subject, request).await;
    let answer = answer.map_err(|error| match error.kind() {
        RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
            Error::Refused(error.to_string())
        }
        RequestErrorKind::NoResponders => Error::NotNow(error.to_string()),
        _ => Error::Unanswered(error.to_string()),
    })?;
    if answer.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(Error::NotNow("no stream takes the subject".to_owned()));
    }
    read(&answer.payload)
}

/// The sequence that an answer tells.
fn read(answer: &[u8]) -> Result<u64, Error> {
    #[derive(Deserialize)]
    struct Answer {
        seq: Option<u64>,
        error: Option<ApiError>,
    }
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|error| Error::Unanswered(error.to_string()))?;
    match (answer.error, answer.seq) {
        (Some(error), _) => Err(meaning(&error)),
        (None, Some(sequence)) => Ok(sequence),
        (None, None) => Err(Error::Unanswered("an answer without a sequence".to_owned())),
    }
}

fn meaning(error: &ApiError) -> Error {
    const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
    /// Resources of the account, of memory, of storage; the stream's own limits.
    const FULL: [u64; 4] = [10_002, 10_028, 10_047, 10_077];
    /// Batches are switched off; too many are open.
    const NO_BATCH: [u64; 2] = [10_174, 10_210];
    const INCOMPLETE: u64 = 10_176;
    let words = error.to_string();
    match (error.err_code, error.code) {
        (code, _) if WRONG_LAST_SEQUENCE.contains(&code) => Error::Conflict(words),
        (code, _) if FULL.contains(&code) || NO_BATCH.contains(&code) => Error::NotNow(words),
        (INCOMPLETE, _) => Error::Incomplete(words),
        (_, 400) => Error::Refused(words),
        // A leader that is not one any more may have handed it on.
        _ => Error::Unanswered(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_recorded_from_nats_server_2_15() {
        let answer = |code: u32, err_code: u32, words: &str| {
            let body = format!(
                r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"{words}"}},"stream":"A","seq":0}}"#
            );
            read(body.as_bytes())
        };
        assert_eq!(
            read(br#"{"stream":"A","seq":1012,"batch":"34db","count":1000}"#),
            Ok(1012)
        );
        for (code, err_code, words) in [
            (400, 10_071, "wrong last sequence: 8"),
            (400, 10_164, "wrong last sequence"),
        ] {
            let found = answer(code, err_code, words);
            assert_eq!(found, Err(Error::Conflict(format!("{words} ({err_code})"))));
        }
        for (code, err_code, words) in [
            (400, 10_174, "atomic publish is disabled"),
            (429, 10_210, "atomic publish too many inflight"),
            (503, 10_077, "maximum messages exceeded"),
        ] {
            let found = answer(code, err_code, words);
            assert_eq!(found, Err(Error::NotNow(format!("{words} ({err_code})"))));
        }
        let found = answer(400, 10_176, "atomic publish batch is incomplete");
        let words = "atomic publish batch is incomplete (10176)";
        assert_eq!(found, Err(Error::Incomplete(words.to_owned())));
        for (code, err_code, words) in [
            (400, 10_199, "atomic publish batch is too large: 1000"),
            (400, 10_054, "message size exceeds maximum allowed"),
        ] {
            let found = answer(code, err_code, words);
            assert_eq!(found, Err(Error::Refused(format!("{words} ({err_code})"))));
        }
        for garbage in ["", "{}", "[]", "{\"seq\":\"x\"}"] {
            assert!(matches!(
                read(garbage.as_bytes()),
                Err(Error::Unanswered(_))
            ));
        }
    }
}
