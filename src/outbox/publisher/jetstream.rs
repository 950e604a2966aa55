//! Rows into JetStream, each once.
//!
//! The first row of each aggregate goes out, all at the same time; when all are answered, the second of each, and so on. A row
//! that may be in its stream from an earlier try is told by its `Nats-Msg-Id`, which is its event's id: by the stream itself
//! for the time of its duplicate window, and after half of that by a look at the stream before it is published.
//!
//! | answer | means |
//! |---|---|
//! | acknowledged, also as a duplicate | stored |
//! | code 400 (too large, not allowed, malformed); larger than `max_payload`; no subject | refused |
//! | no responders, resources or storage exceeded, a stream that is full or does not exist | held |
//! | none in time, connection lost, any other code (a leader that is none any more) | unanswered |
//!
//! What remains: a relay whose process is stopped in the middle of a wave sends the rest of that wave when it goes on. That is told
//! as a repeat if it goes on within the duplicate window of whoever took over; a stop that is longer than the window, which begins
//! between the look at the clock and the socket, may store these rows a second time, under the same id.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::Publisher;
use super::message::message;
use crate::jetstream::{Link, ReadError, Repeats, atomic};
use crate::outbox::store::{Answer, Event, Row};
use crate::telemetry;

/// How long the answers of a wave may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How far the clocks of gateways and servers may be apart.
const CLOCKS_APART_MS: u64 = 60_000;

/// Publishes into whichever streams take the rows' subjects.
pub struct JetStream {
    link: Link,
    repeats: Repeats,
    limit: Duration,
}

/// Rows of one aggregate that are not answered, by their place.
type Queue = VecDeque<usize>;

impl JetStream {
    /// Over this connection. No wave begins later than `limit` after the rows were given: then their lease must still last for
    /// some seconds.
    #[must_use]
    pub fn new(link: &Link, limit: Duration) -> Self {
        Self {
            link: link.clone(),
            repeats: Repeats::new(link),
            limit,
        }
    }

    /// Which rows are in their streams already, by place, and which it is not known of.
    async fn look(&self, rows: &[Row]) -> (HashSet<usize>, HashSet<usize>) {
        let mut subjects: HashMap<&str, Vec<(usize, u64)>> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            if let Some(tried) = row.tried_ms {
                let tried = u64::try_from(tried).unwrap_or(0);
                subjects
                    .entry(&row.event.subject)
                    .or_default()
                    .push((place, tried));
            }
        }
        let looks = subjects.into_iter().map(|(subject, places)| async move {
            let first = places.iter().map(|(_, tried)| *tried).min().unwrap_or(0);
            (places, self.ids(subject, first).await)
        });
        let (mut stored, mut unknown) = (HashSet::new(), HashSet::new());
        for (places, ids) in join_all(looks).await {
            match ids {
                Ok(ids) => {
                    let is_there = |place: &usize| {
                        rows.get(*place)
                            .is_some_and(|row| ids.contains(&id(&row.event)))
                    };
                    stored.extend(places.into_iter().map(|(place, _)| place).filter(is_there));
                }
                Err(error) => {
                    tracing::debug!(%error, "outbox rows are not looked up");
                    unknown.extend(places.into_iter().map(|(place, _)| place));
                }
            }
        }
        (stored, unknown)
    }

    /// What a stream has on a subject of rows that were tried first at this time, if it may have forgotten their ids.
    async fn ids(&self, subject: &str, tried_ms: u64) -> Result<HashSet<String>, ReadError> {
        let Some(memory) = self.repeats.memory(subject).await? else {
            return Ok(HashSet::new());
        };
        let age = Duration::from_millis(telemetry::now_unix_ms().saturating_sub(tried_ms));
        match age < memory.window / 2 {
            true => Ok(HashSet::new()),
            false => {
                let since = tried_ms.saturating_sub(CLOCKS_APART_MS);
                self.repeats.ids_since(&memory.stream, subject, since).await
            }
        }
    }

    async fn hand_over(&self, row: Option<&Row>) -> Answer {
        let Some(row) = row else {
            return Answer::Held;
        };
        match atomic::commit(&self.link, &[message(&row.event)], ANSWER_MAX).await {
            Ok(_stored) => Answer::Stored,
            Err(atomic::Error::Refused(reason)) => Answer::Refused(reason),
            Err(atomic::Error::NotNow(reason)) => {
                tracing::debug!(id = row.id, reason, "outbox row not taken now");
                Answer::Held
            }
            Err(error) => {
                tracing::debug!(id = row.id, %error, "outbox row without an answer");
                Answer::Unanswered
            }
        }
    }
}

impl Publisher for JetStream {
    async fn publish(&self, rows: &[Row]) -> Vec<Answer> {
        let begun = Instant::now();
        let mut answers = vec![Answer::Held; rows.len()];
        let looked = tokio::time::timeout(self.limit / 2, self.look(rows)).await;
        let (stored, unknown) = looked.unwrap_or_else(|_elapsed| {
            let tried = |place: &usize| rows.get(*place).is_some_and(|row| row.tried_ms.is_some());
            (HashSet::new(), (0..rows.len()).filter(tried).collect())
        });
        let mut queues: HashMap<(&str, &str), Queue> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let aggregate = (&*row.event.aggregate_type, &*row.event.aggregate_id);
            queues.entry(aggregate).or_default().push_back(place);
        }
        let mut queues: Vec<Queue> = queues.into_values().collect();
        // By a clock that no one sets; a process that was stopped meanwhile sees it as well.
        while begun.elapsed() < self.limit && self.link.is_connected() {
            let wave: Vec<usize> = queues.iter().filter_map(VecDeque::front).copied().collect();
            if wave.is_empty() {
                break;
            }
            let answered = wave.iter().map(|place| {
                let row = rows.get(*place).filter(|_| !unknown.contains(place));
                let is_stored = stored.contains(place);
                async move {
                    match is_stored {
                        true => Answer::Stored,
                        false => self.hand_over(row).await,
                    }
                }
            });
            let answered = join_all(answered).await;
            let mut goes_on = answered.iter().map(|answer| *answer == Answer::Stored);
            queues.retain_mut(|queue| {
                queue.pop_front();
                goes_on.next().unwrap_or(false) && !queue.is_empty()
            });
            for (place, answer) in wave.into_iter().zip(answered) {
                if let Some(slot) = answers.get_mut(place) {
                    *slot = answer;
                }
            }
        }
        answers
    }

    async fn reachable(&self) {
        self.link.connected().await;
    }
}

fn id(event: &Event) -> String {
    event.event_id.hyphenated().to_string()
}
