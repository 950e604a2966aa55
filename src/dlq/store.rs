//! One message stored, and what the stream's answer means.

use std::time::Duration;

use serde::Deserialize;

use crate::jetstream::{Link, ReadError};
use crate::message::Message;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why a dead letter could not be read, stored, replayed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It may or may not be stored.
    #[error("no answer to a message on {subject}: {reason}")]
    Unanswered {
        /// Where the message went.
        subject: String,
        /// What was seen.
        reason: String,
    },
    /// The stream did not take the message.
    #[error("a message on {subject} was refused: {reason} ({code})")]
    Refused {
        /// Where the message went.
        subject: String,
        /// The server's words.
        reason: String,
        /// The server's number.
        code: u64,
    },
    /// A stream could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// NATS could not be asked about a stream.
    #[error(transparent)]
    Stream(#[from] crate::jetstream::Error),
    /// It cannot be replayed.
    #[error(transparent)]
    Unreplayable(#[from] crate::mapping::Unreplayable),
    /// There is none with this number.
    #[error("no dead letter {0}")]
    Unknown(u64),
}

#[derive(Deserialize)]
struct Answer {
    error: Option<Refusal>,
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct Refusal {
    err_code: u64,
    description: String,
}

/// Publishes a message and waits until it is stored; whether it is new to the stream, by its id.
pub(super) async fn store(link: &Link, message: Message) -> Result<bool, Error> {
    let subject = message.subject.to_string();
    let unanswered = |reason: String| Error::Unanswered {
        subject: subject.clone(),
        reason,
    };
    let answer = link.request(message, ANSWER_WITHIN).await;
    let answer = answer.map_err(|error| unanswered(error.to_string()))?;
    let answer: Answer =
        serde_json::from_slice(&answer.payload).map_err(|error| unanswered(error.to_string()))?;
    match answer.error {
        None => Ok(!answer.duplicate),
        Some(refusal) => Err(Error::Refused {
            subject,
            reason: refusal.description,
            code: refusal.err_code,
        }),
    }
}
