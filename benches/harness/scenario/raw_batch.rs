//! No MQTT: what JetStream takes in fast batches (nats-server 2.14), without a message id.
//!
//! Publishers beside each other, each with a connection and with devices of its own: a batch takes what waits, its last message
//! commits it, and the next one begins with the answer. No timer, so a lone message leaves at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::measuring::{Measured, Span, Tally, watch};
use crate::arguments::Arguments;
use crate::check::Published;
use crate::histogram::Sample;
use crate::payload;
use crate::target::Target;

/// As many as the gateway has by default.
const PUBLISHERS: usize = 2;
const MESSAGES_MAX: usize = 500;
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let mut publishers = JoinSet::new();
    for number in 0..PUBLISHERS {
        let rate = arguments.rate.map(|rate| rate / PUBLISHERS as f64);
        let publisher = Publisher {
            client: target.nats().await?.context("a NATS server")?,
            number,
            span,
            tally: tally.clone(),
            bytes: arguments.payload,
            counters: vec![0; arguments.devices.div_ceil(PUBLISHERS)],
            device: 0,
            waiting: VecDeque::new(),
            interval: rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            due: Instant::now(),
        };
        publishers.spawn(publisher.run());
    }
    let mut measured = Measured {
        usage: watch(target, span, &tally).await?,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    while let Some(publisher) = publishers.join_next().await {
        let (published, samples) = publisher??;
        measured.published.extend(published);
        measured.samples.extend(samples);
    }
    Ok(measured)
}

struct Publisher {
    client: async_nats::Client,
    number: usize,
    span: Span,
    tally: Tally,
    bytes: usize,
    /// Messages of each of its devices so far.
    counters: Vec<u64>,
    /// Whose turn it is.
    device: usize,
    /// When the messages of the batch were due.
    waiting: VecDeque<Instant>,
    interval: Option<Duration>,
    due: Instant,
}

impl Publisher {
    async fn run(mut self) -> Result<(Vec<Published>, Vec<Sample>)> {
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(format!("{inbox}.>")).await?;
        let mut samples = Vec::new();
        for batch in 1_u64.. {
            if self.interval.is_some() {
                sleep_until(self.due.min(self.span.end).into()).await;
            }
            if Instant::now() >= self.span.end {
                break;
            }
            self.take();
            self.send(&inbox, batch).await?;
            // Answers on the way say how far it is; the one to the commit ends it.
            loop {
                let answer = timeout(ANSWER_MAX, answers.next()).await;
                let answer = answer.context("no answer")?.context("an answer")?;
                let said: Answer = serde_json::from_slice(&answer.payload)?;
                ensure!(said.error.is_none(), "not stored: {:?}", said.error);
                if let Some(count) = said.count {
                    ensure!(
                        count == self.waiting.len(),
                        "{count} of a batch were stored"
                    );
                    break;
                }
            }
            let now = Instant::now();
            self.tally.add(self.waiting.len() as u64);
            let done = self.waiting.drain(..);
            samples.extend(done.filter_map(|due| self.span.sample(due, now)));
        }
        let (first, published) = (self.number, self.counters.iter().enumerate());
        let published = published.map(|(device, sent)| Published {
            device: first + device * PUBLISHERS,
            acknowledged: *sent,
            sent: *sent,
        });
        Ok((published.collect(), samples))
    }

    /// What is due by now, up to a batch; in a closed loop a whole one.
    fn take(&mut self) {
        let now = Instant::now();
        while self.waiting.len() < MESSAGES_MAX {
            let Some(interval) = self.interval else {
                self.waiting.push_back(now);
                continue;
            };
            if self.due > now {
                break;
            }
            self.waiting.push_back(self.due);
            self.due += interval;
        }
    }

    async fn send(&mut self, inbox: &str, batch: u64) -> Result<()> {
        let count = self.waiting.len();
        for number in 1..=count {
            self.device = (self.device + 1) % self.counters.len();
            let counter = self.counters.get_mut(self.device).context("a device")?;
            *counter += 1;
            let body = payload::numbered(*counter, self.bytes);
            let subject = format!("bench.{}.up", self.number + self.device * PUBLISHERS);
            // 0 begins a batch, 1 goes on, 2 goes on and commits.
            let operation = match number {
                _ if number == count => 2,
                1 => 0,
                _ => 1,
            };
            let name = format!("{}-{batch}", self.number);
            let reply = format!("{inbox}.{name}.{MESSAGES_MAX}.fail.{number}.{operation}.$FI");
            self.client.publish_with_reply(subject, reply, body).await?;
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Answer {
    /// How many a committed batch has stored.
    count: Option<usize>,
    error: Option<serde_json::Value>,
}
