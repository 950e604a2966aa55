//! One run of a job, as it is asked for and as it is kept.

use std::time::Duration;

use serde::Serialize;

/// Bytes of a job's parameters.
pub const PARAMS_BYTES_MAX: usize = 16 * 1024;

/// Who wanted a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The scheduler of this program; its runs are so far apart at least.
    Schedule(Duration),
    /// The command line.
    Cli,
    /// The operator's HTTP port.
    Http,
    /// XXL-JOB.
    Xxl(LogId),
}

/// What XXL-JOB knows a run by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogId {
    /// `logId`.
    pub id: i64,
    /// `logDateTime`, Unix milliseconds.
    pub ms: i64,
}

impl Cause {
    /// Its name in tables and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule(_) => "schedule",
            Self::Cli => "cli",
            Self::Http => "http",
            Self::Xxl(_) => "xxl",
        }
    }

    pub(super) fn log(self) -> Option<LogId> {
        match self {
            Self::Xxl(log) => Some(log),
            Self::Schedule(_) | Self::Cli | Self::Http => None,
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its identity: a UUID of version 7.
    pub id: String,
    /// Of which job.
    pub name: String,
    /// For the job to read.
    pub params: String,
    /// Who wants it.
    pub cause: Cause,
    /// How long it may take, where that is less than the job's own limit.
    pub limit: Option<Duration>,
}

impl Request {
    /// A run with an identity of its own.
    #[must_use]
    pub fn new(name: &str, params: &str, cause: Cause) -> Self {
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            name: name.to_owned(),
            params: params.to_owned(),
            cause,
            limit: None,
        }
    }
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It waits for the one before it.
    Queued,
    /// It runs.
    Running,
    /// It did what it is for.
    Done,
    /// It did not.
    Failed,
    /// It took too long and was ended.
    Timeout,
    /// Somebody, or the end of its node, ended it.
    Killed,
    /// Its node is gone, or lost its lock.
    Lost,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Timeout,
        Self::Killed,
        Self::Lost,
    ];

    /// Its name in tables and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Lost => "lost",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What became of it.
    pub outcome: Outcome,
    /// What it did, or why it did not.
    pub message: String,
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Its identity.
    pub id: String,
    /// Of which job.
    pub name: String,
    /// What it was given.
    pub params: String,
    /// Who wanted it: `schedule`, `cli`, `http` or `xxl`.
    pub cause: String,
    /// The process that runs it.
    pub node: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What it did, or why it did not; empty before its end.
    pub message: String,
    /// When it was wanted, Unix milliseconds.
    pub queued_ms: i64,
    /// When it began.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
}

/// A line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// From 1 on.
    pub number: i64,
    /// When it was said, Unix milliseconds.
    pub at_ms: i64,
    /// What was said.
    pub text: String,
}
