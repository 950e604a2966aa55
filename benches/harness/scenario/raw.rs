//! No MQTT: what JetStream itself takes from one pipelined publisher, as the measure for the others; with message ids or without.
//!
//! One connection, one inbox, a reply subject a message; as many unanswered as the devices together would have, but no more than
//! help: beyond about a thousand only the waiting grows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{HeaderMap, Message};
use futures_util::StreamExt as _;
use tokio::time::{sleep_until, timeout};

use super::measuring::{Measured, Span, Tally, watch};
use crate::arguments::{Arguments, Name};
use crate::check::Published;
use crate::histogram::Sample;
use crate::payload;
use crate::target::Target;

const INFLIGHT_MAX: usize = 1_024;
const LAST_ANSWER_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let client = target.nats().await?.context("a NATS server")?;
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let mut publisher = Publisher::new(client, arguments, span, tally.clone());
    publisher.has_ids = target.kind == Name::RawIds;
    let (usage, published) = tokio::join!(watch(target, span, &tally), publisher.run());
    let (published, samples) = published?;
    Ok(Measured {
        samples,
        published,
        elapsed: span.end - span.begin,
        usage: usage?,
        figures: Vec::new(),
    })
}

struct Publisher {
    client: async_nats::Client,
    inbox: String,
    span: Span,
    tally: Tally,
    bytes: usize,
    /// Whether each message has an id, so that it is stored once however often it is sent.
    has_ids: bool,
    /// For each place in the window, since when it waits.
    since: Vec<Option<Instant>>,
    free: Vec<usize>,
    /// Messages of each device so far.
    counters: Vec<u64>,
    /// Whose turn it is.
    device: usize,
    interval: Option<Duration>,
    due: Option<Instant>,
}

impl Publisher {
    fn new(client: async_nats::Client, arguments: &Arguments, span: Span, tally: Tally) -> Self {
        let window = (arguments.devices * usize::from(arguments.window)).clamp(1, INFLIGHT_MAX);
        let rate = arguments.rate;
        Self {
            inbox: client.new_inbox(),
            client,
            span,
            tally,
            bytes: arguments.payload,
            has_ids: false,
            since: vec![None; window],
            free: (0..window).collect(),
            counters: vec![0; arguments.devices],
            device: 0,
            interval: rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            due: rate.map(|_| Instant::now()),
        }
    }

    async fn run(mut self) -> Result<(Vec<Published>, Vec<Sample>)> {
        let mut answers = self.client.subscribe(format!("{}.*", self.inbox)).await?;
        let mut samples = Vec::new();
        loop {
            let is_over = self.fill().await?;
            if is_over && self.free.len() == self.since.len() {
                break;
            }
            let wake = self.due.filter(|_| !self.free.is_empty() && !is_over);
            let wake = wake.unwrap_or_else(|| Instant::now() + LAST_ANSWER_MAX);
            tokio::select! {
                answer = timeout(LAST_ANSWER_MAX, answers.next()) => {
                    let answer = answer.context("no answer")?.context("an answer")?;
                    samples.extend(self.finish(&answer)?);
                }
                () = sleep_until(wake.into()) => {}
            }
        }
        let published = (0..).zip(self.counters).map(|(device, sent)| Published {
            device,
            acknowledged: sent,
            sent,
        });
        Ok((published.collect(), samples))
    }

    /// Publishes what is due and has room; whether the time is over.
    async fn fill(&mut self) -> Result<bool> {
        let now = Instant::now();
        let is_over = now >= self.span.end;
        while !is_over
            && self.due.is_none_or(|due| due <= now)
            && let Some(slot) = self.free.pop()
        {
            let begun = self.due.unwrap_or(now);
            self.due = self.interval.map(|interval| begun + interval);
            self.device = (self.device + 1) % self.counters.len();
            let counter = self.counters.get_mut(self.device).context("a device")?;
            *counter += 1;
            let body = payload::numbered(*counter, self.bytes);
            let subject = format!("bench.{}.up", self.device);
            let reply = format!("{}.{slot}", self.inbox);
            if self.has_ids {
                let mut headers = HeaderMap::new();
                headers.insert(NATS_MESSAGE_ID, format!("{}-{counter}", self.device));
                let client = &self.client;
                client
                    .publish_with_reply_and_headers(subject, reply, headers, body)
                    .await?;
            } else {
                self.client.publish_with_reply(subject, reply, body).await?;
            }
            *self.since.get_mut(slot).context("a place")? = Some(begun);
        }
        Ok(is_over)
    }

    fn finish(&mut self, answer: &Message) -> Result<Option<Sample>> {
        // A refusal is an object with an error, and nobody's answer is empty.
        let said = String::from_utf8_lossy(&answer.payload);
        ensure!(said.starts_with(r#"{"stream""#), "not stored: {said}");
        let slot = answer
            .subject
            .rsplit('.')
            .next()
            .and_then(|text| text.parse().ok());
        let slot: usize = slot.context("the number of an answer")?;
        let begun = self.since.get_mut(slot).and_then(Option::take);
        let begun = begun.context("a place in use")?;
        self.free.push(slot);
        self.tally.add(1);
        Ok(self.span.sample(begun, Instant::now()))
    }
}
