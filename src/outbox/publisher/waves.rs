//! Rows to any broker, in waves: the first of each aggregate, then the second of each, as long as those before are stored.
//!
//! Invariants: what is handed over has all of its aggregate before it stored; after a wave in which the broker was away or silent there is no
//! other, so that one that does not answer is waited for once.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Publisher;
use super::message::message;
use crate::broker::{Broker, Fault, Posting};
use crate::outbox::store::{Answer, Row};

/// Publishes to a broker that does not keep the order of what is handed over together.
pub struct Waves<B> {
    broker: B,
    limit: Duration,
}

impl<B: Broker> Waves<B> {
    /// To this broker. No wave begins later than `limit` after the rows were given: then their lease must still last for
    /// some seconds.
    #[must_use]
    pub fn new(broker: B, limit: Duration) -> Self {
        Self { broker, limit }
    }
}

impl<B: Broker> Publisher for Waves<B> {
    async fn publish(&self, rows: &[Row]) -> Vec<Answer> {
        let deadline = Instant::now() + self.limit;
        let mut answers = vec![Answer::Held; rows.len()];
        let mut waiting: Vec<(usize, &Row)> = rows.iter().enumerate().collect();
        let mut is_there = true;
        while is_there && !waiting.is_empty() && Instant::now() < deadline {
            let mut begun = HashSet::new();
            let (wave, behind): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(_, row)| begun.insert(aggregate(row)));
            let postings: Vec<_> = wave.iter().map(|(_, row)| posting(row)).collect();
            let mut stopped = HashSet::new();
            for ((place, row), stored) in wave.into_iter().zip(self.broker.store(&postings).await) {
                let answer = match stored {
                    Ok(()) => Answer::Stored,
                    Err(Fault::Refused(reason)) => {
                        stopped.insert(aggregate(row));
                        Answer::Refused(reason)
                    }
                    Err(fault) => {
                        tracing::debug!(row = row.id, %fault, "row not published");
                        is_there = false;
                        match fault {
                            Fault::Unanswered(_) => Answer::Unanswered,
                            _ => Answer::Held,
                        }
                    }
                };
                if let Some(of) = answers.get_mut(place) {
                    *of = answer;
                }
            }
            waiting = behind;
            waiting.retain(|(_, row)| !stopped.contains(&aggregate(row)));
        }
        answers
    }
}

fn aggregate(row: &Row) -> (&str, &str) {
    (&row.event.aggregate_type, &row.event.aggregate_id)
}

fn posting(row: &Row) -> Posting {
    Posting {
        id: row.event.event_id,
        key: row.event.aggregate_id.clone(),
        message: message(&row.event),
    }
}
