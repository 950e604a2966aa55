//! Storing and pulling: the logs behind their lock, and waiting for something to come.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Broker;
use super::log::{Log, Take};
use crate::broker::{self, Fault, Posting};
use crate::delivery::{Answer, Next};
use crate::message::Subject;
use crate::telemetry::now_unix_ms;

/// How long a pull is kept that finds no messages.
const PULL_EXPIRES: Duration = Duration::from_secs(2);

impl broker::Broker for Broker {
    async fn store(&self, postings: &[Posting]) -> Vec<Result<(), Fault>> {
        let (now, now_ms) = (Instant::now(), now_unix_ms());
        let mut logs = self.0.logs();
        let mut store = |posting: &Posting| {
            let log = log_of(&mut logs, &posting.message.subject)?;
            log.store(posting, now, now_ms)
        };
        let stored = postings.iter().map(&mut store).collect();
        drop(logs);
        self.0.changed.notify_waiters();
        stored
    }
}

fn log_of<'l>(logs: &'l mut HashMap<Arc<str>, Log>, subject: &str) -> Result<&'l mut Log, Fault> {
    let mut logs = logs.values_mut();
    let log = logs.find(|log| log.stream.takes(subject));
    log.ok_or_else(|| Fault::Refused(format!("no stream takes the subject {subject}")))
}

/// Who takes the messages of a durable, one of perhaps many.
pub struct Puller {
    broker: Broker,
    stream: Box<str>,
    durable: Box<str>,
    /// How many may still come by the last pull, and until when.
    pull: Option<(usize, Instant)>,
}

impl Puller {
    pub(super) fn new(broker: &Broker, stream: &str, durable: &str) -> Self {
        Self {
            broker: broker.clone(),
            stream: stream.into(),
            durable: durable.into(),
            pull: None,
        }
    }

    /// Whether messages may still come by the last [`pull`](Self::pull).
    #[must_use]
    pub fn is_pulling(&self) -> bool {
        self.pull.is_some()
    }

    /// Asks for at most so many messages, in place of what was asked for before.
    pub fn pull(&mut self, messages: usize) {
        self.pull = Some((messages, Instant::now() + PULL_EXPIRES));
    }

    /// Waits for what comes next. Cancel-safe.
    pub async fn next(&mut self) -> Next {
        let Some((left, until)) = self.pull else {
            return pending().await;
        };
        loop {
            let mut changed = std::pin::pin!(self.broker.0.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let now = Instant::now();
            let taken = match self.broker.0.logs().get_mut(&*self.stream) {
                Some(log) => log.take(&self.durable, now),
                None => Take::Gone,
            };
            let due = match taken {
                Take::Message(delivered) => {
                    self.pull = (left > 1).then_some((left - 1, until));
                    return Next::Message(delivered);
                }
                Take::Gone => return Next::Gone,
                Take::Nothing(due) => due,
            };
            if now >= until {
                self.pull = None;
                return Next::Ended;
            }
            let wake = due.map_or(until, |due| due.min(until));
            tokio::select! {
                () = changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Answers a message.
    pub fn answer(&self, reply: &Subject, answer: Answer) {
        let place = reply
            .split_once('.')
            .and_then(|(sequence, attempt)| Some((sequence.parse().ok()?, attempt.parse().ok()?)));
        if let Some(place) = place
            && let Some(log) = self.broker.0.logs().get_mut(&*self.stream)
        {
            log.answer(&self.durable, place, answer, Instant::now());
        }
        self.broker.0.changed.notify_waiters();
    }
}
