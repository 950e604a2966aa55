//! Requests that are tried again: what a failure means, and for how long it is worth another try.
//!
//! NATS does not answer while a server restarts or a leader is elected; who waits for a record or a page waits a little
//! longer then. What the server refuses is not tried again.

use std::time::Duration;

use async_nats::StatusCode;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

/// For how long an unanswered read is tried again: longer than the election of a new leader takes.
const RETRY_FOR: Duration = Duration::from_secs(15);
/// How long one try may take.
pub(super) const TRY: Duration = Duration::from_secs(2);
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// Why a stream could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No usable answer within the time for retries.
    #[error("no answer to {subject}: {reason}")]
    Unanswered {
        /// The API subject that was asked.
        subject: String,
        /// What was seen last.
        reason: String,
    },
    /// An answer that is no message and names no passing failure.
    #[error("{subject} was refused: {reason}")]
    Refused {
        /// The API subject that was asked.
        subject: String,
        /// The server's words.
        reason: String,
    },
}

/// Why one try failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another try may succeed.
    Passing(String),
    /// It will not.
    Final(String),
}

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
    pub(super) fn passing(error: impl ToString) -> Self {
        Self::Passing(error.to_string())
    }

    pub(super) fn status(status: StatusCode, answer: &async_nats::Message) -> Self {
        let reason = answer.description.as_deref().unwrap_or_default();
        let reason = format!("{status} {reason}");
        match status {
            StatusCode::NO_RESPONDERS => Self::Passing(reason),
            _ => Self::Final(reason),
        }
    }
}

/// The error object of a JetStream API answer.
#[derive(Debug, Clone, Deserialize, thiserror::Error)]
#[error("{description} ({err_code})")]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) code: u32,
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    description: String,
}

impl ApiError {
    pub(super) fn refused(&self, subject: &str) -> Error {
        Error::Refused {
            subject: subject.to_owned(),
            reason: self.to_string(),
        }
    }
}

/// The tries of one request, until one succeeds, one fails for good, or [`RETRY_FOR`] is over.
pub(super) struct Tries<'s> {
    subject: &'s str,
    deadline: Instant,
    backoff: Duration,
}

impl<'s> Tries<'s> {
    pub(super) fn new(subject: &'s str) -> Self {
        Self {
            subject,
            deadline: Instant::now() + RETRY_FOR,
            backoff: BACKOFF_MIN,
        }
    }

    pub(super) fn is_first(&self) -> bool {
        self.backoff == BACKOFF_MIN
    }

    /// Returns when it is time for the next try.
    pub(super) async fn again(&mut self, failure: Failure) -> Result<(), Error> {
        let subject = self.subject.to_owned();
        let reason = match failure {
            Failure::Final(reason) => return Err(Error::Refused { subject, reason }),
            Failure::Passing(reason) => reason,
        };
        if Instant::now() + self.backoff > self.deadline {
            return Err(Error::Unanswered { subject, reason });
        }
        sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        Ok(())
    }
}
