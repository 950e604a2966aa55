//! A row in the hands of a relay, and what became of it.

use super::Event;

/// An event in the hands of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place in the outbox; rises within an aggregate.
    pub id: i64,
    /// The event.
    pub event: Event,
    /// When it was handed to a broker first without an answer that is known, Unix milliseconds; none if it never was. Such a
    /// row may be with the broker already.
    pub tried_ms: Option<i64>,
}

/// What became of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The broker has it, now or from an earlier try.
    Stored,
    /// The broker does not want this row, for this reason: counts as an attempt.
    Refused(String),
    /// The broker gave no answer, so it may have it or not. No attempt.
    Unanswered,
    /// It was not handed to the broker, as one before it of its aggregate is not stored, or the broker is away. No attempt.
    Held,
}
