//! What goes wrong with a job.

use std::time::Duration;

use crate::database::{self, Fate, fate};

/// Why something about jobs could not be done, or why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be opened, or its tables are not what this version knows.
    #[error(transparent)]
    Database(#[from] database::Error),
    /// A statement.
    #[error("database of jobs")]
    Statement(#[from] sqlx::Error),
    /// The database did not answer in time.
    #[error("database of jobs: no answer within {0:?}")]
    Unanswered(Duration),
    /// There is no job of this name.
    #[error("job {0:?}: unknown, expected one of {1}")]
    Unknown(String, String),
    /// The job's lock is another's by now: what it was about to write is not its business any more.
    #[error("the lock of the job is lost")]
    LockLost,
    /// What the job says itself.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Whether the same may succeed later: nobody answered, or others were in the way.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Statement(error) => {
                matches!(fate(error), Fate::Unavailable | Fate::Conflict)
            }
            _ => false,
        }
    }

    /// With its causes, in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}
