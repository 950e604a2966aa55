//! What services give up becomes a dead letter, in whatever language they are written: the server's advisories say what it was.
//!
//! Stream `JETWAY_ADVISORIES` keeps those until their dead letter is stored, so that none is missed while no gateway runs. Any number
//! of gateways collect; each advisory is in the hands of one. That a message has one dead letter, however often its advisory
//! comes, is the store's own doing: the dead letter's subject names the message, and is expected to be empty.

use std::collections::HashMap;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_util::sync::CancellationToken;

use super::STREAM;
use super::store::{Error, store};
use crate::jetstream::consumer::{Answer, Consumer, Delivered, Durable, Next};
use crate::jetstream::{Link, Reader, provision};
use crate::mapping::{Fallen, Mapping, Original};
use crate::message::Message;
use crate::telemetry;
use crate::telemetry::otlp::{self, Spans};

const ADVISORIES: &str = "JETWAY_ADVISORIES";
/// Advisories in the hands of one gateway.
const PULL: usize = 64;
/// After so long without a word someone else takes them.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// Between two tries of what failed, longer each time.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// A condition that the stream found broken.
const WRONG_LAST_SEQUENCE: u64 = 10_071;

/// What fell out of durables.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    durable: String,
    reason: &'static str,
}

/// The collector of one gateway.
pub struct Collector {
    link: Link,
    dead_letters: Reader,
    /// Of the streams of durables.
    readers: HashMap<String, Reader>,
    /// Stream and name of the durables whose messages become dead letters.
    durables: Vec<(String, String)>,
    collected: Family<Labels, Counter>,
    failures: Counter,
    spans: Spans,
}

/// `io.nats.jetstream.advisory.v1.max_deliver` and `….terminated`.
#[derive(Debug, Deserialize)]
struct Advisory {
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    stream: String,
    consumer: String,
    stream_seq: u64,
    deliveries: u64,
    reason: Option<String>,
}

impl Advisory {
    fn fallen(&self) -> Fallen<'_> {
        let at = OffsetDateTime::parse(&self.timestamp, &Rfc3339).ok();
        let at_ms = at.and_then(|at| u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok());
        Fallen {
            stream: &self.stream,
            durable: &self.consumer,
            sequence: self.stream_seq,
            reason: match self.kind.ends_with(".terminated") {
                true => "terminated",
                false => "max_deliveries",
            },
            detail: self.reason.as_deref(),
            attempts: self.deliveries,
            at_ms: at_ms.unwrap_or_else(telemetry::now_unix_ms),
        }
    }
}

impl Collector {
    /// Collects for these durables, each its stream and name, and leaves spans with `spans`; nothing is asked yet.
    #[must_use]
    pub fn new(link: &Link, durables: Vec<(String, String)>, spans: Spans) -> Self {
        Self {
            link: link.clone(),
            dead_letters: Reader::new(link, STREAM),
            readers: HashMap::new(),
            durables,
            collected: Family::default(),
            failures: Counter::default(),
            spans,
        }
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "durable_dead_letters",
            "Messages that fell out of durables and were kept as dead letters",
            self.collected.clone(),
        );
        registry.register(
            "durable_dead_letter_failures",
            "Tries to keep a dead letter of a durable that failed and were repeated",
            self.failures.clone(),
        );
    }

    /// Collects until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.collect()).await;
    }

    async fn collect(&mut self) {
        let durable = Durable {
            stream: ADVISORIES.into(),
            name: "dead-letters".into(),
            description: "Gateways make dead letters of these".to_owned(),
            filters: vec!["$JS.EVENT.ADVISORY.CONSUMER.>".into()],
            ack_wait: ACK_WAIT,
            inactive_threshold: Duration::ZERO,
        };
        let mut pause = PAUSE_MIN;
        loop {
            self.link.connected().await;
            match Consumer::open(&self.link, &durable, 0).await {
                Ok(consumer) => {
                    pause = PAUSE_MIN;
                    self.take(consumer).await;
                }
                Err(error) => tracing::warn!(%error, "advisories of durables not read"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Takes what comes, until the consumer is gone.
    async fn take(&mut self, mut consumer: Consumer) {
        loop {
            if !consumer.is_pulling() {
                consumer.pull(PULL).await;
            }
            match consumer.next().await {
                Next::Message(delivered) => self.handle(&consumer, delivered).await,
                Next::Ended => {}
                Next::Refused(reason) => {
                    tracing::debug!(reason, "pull of advisories refused");
                    tokio::time::sleep(PAUSE_MAX).await;
                }
                Next::Gone => return,
            }
        }
    }

    /// Stays with one until it is kept: behind it nothing is lost, and what fails for one fails for all.
    async fn handle(&mut self, consumer: &Consumer, delivered: Delivered) {
        let mut pause = PAUSE_MIN;
        let advisory = serde_json::from_slice::<Advisory>(&delivered.message.payload);
        match advisory {
            Ok(advisory) if self.is_ours(&advisory) => loop {
                match self.keep(&advisory).await {
                    Ok(()) => break,
                    Err(error) => {
                        let (stream, durable) = (&advisory.stream, &advisory.consumer);
                        let sequence = advisory.stream_seq;
                        tracing::warn!(stream, durable, sequence, %error, "dead letter not kept yet");
                        self.failures.inc();
                    }
                }
                let reply = delivered.reply.clone();
                consumer.answer(reply, Answer::Progress).await;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            },
            Ok(_other) => {}
            Err(error) => tracing::warn!(%error, "advisory not understood"),
        }
        consumer.answer(delivered.reply, Answer::Ack).await;
    }

    fn is_ours(&self, advisory: &Advisory) -> bool {
        let mut durables = self.durables.iter();
        durables.any(|(stream, name)| *stream == advisory.stream && *name == advisory.consumer)
    }

    async fn keep(&mut self, advisory: &Advisory) -> Result<(), Error> {
        let fallen = advisory.fallen();
        let start = telemetry::now();
        let stored = self.original(&advisory.stream, advisory.stream_seq).await?;
        let original = stored.as_ref().map(|(message, stored_ms)| Original {
            message,
            stored_ms: *stored_ms,
        });
        let bytes_max = self.link.client.server_info().max_payload;
        let letter = Mapping::dead_delivery(&fallen, original.as_ref(), bytes_max);
        let traceparent = letter.headers.get("traceparent").unwrap_or_default();
        let traceparent = traceparent.to_owned();
        if self.store_once(letter, original.as_ref()).await? {
            let (durable, reason) = (advisory.consumer.clone(), fallen.reason);
            let labels = Labels { durable, reason };
            self.collected.get_or_create(&labels).inc();
            let (stream, durable, sequence) = (fallen.stream, fallen.durable, fallen.sequence);
            let (reason, attempts) = (fallen.reason, fallen.attempts);
            tracing::warn!(stream, durable, sequence, reason, attempts, "dead letter");
            let source = format!("{stream}:{sequence}");
            let attributes = [
                ("messaging.consumer.group.name", durable),
                ("jetway.source", &*source),
                (otlp::ERROR, reason),
            ];
            let end = telemetry::now();
            self.spans
                .record("dead letter", &traceparent, start, end, &attributes);
        }
        self.acknowledge(&fallen).await;
        Ok(())
    }

    /// The message and when it was stored; none if it is gone, or its whole stream.
    async fn original(
        &mut self,
        stream: &str,
        sequence: u64,
    ) -> Result<Option<(Message, u64)>, Error> {
        let link = &self.link;
        let reader = self.readers.entry(stream.to_owned());
        let reader = reader.or_insert_with(|| Reader::new(link, stream));
        match reader.at(sequence).await {
            Ok(stored) => Ok(stored.map(|stored| (stored.message, stored.time_ms))),
            Err(error) => match provision::created(link, stream).await? {
                None => Ok(None),
                Some(_) => Err(error.into()),
            },
        }
    }

    /// Stores the dead letter unless there is one of this message; whether it did.
    async fn store_once(
        &self,
        letter: Message,
        original: Option<&Original<'_>>,
    ) -> Result<bool, Error> {
        const EXPECT: &str = "Nats-Expected-Last-Subject-Sequence";
        let mut expected = 0;
        loop {
            let mut message = letter.clone();
            message.headers.push(EXPECT, expected.to_string());
            match store(&self.link, message).await {
                Ok(is_new) => return Ok(is_new),
                Err(Error::Refused { code, .. }) if code == WRONG_LAST_SEQUENCE => {}
                Err(error) => return Err(error),
            }
            let last = self.dead_letters.last_on(&letter.subject).await?;
            expected = match last {
                Some(last) if Mapping::is_of(&last.message, original) => return Ok(false),
                // Of a message in a stream that was replaced.
                Some(last) => last.sequence,
                None => 0,
            };
        }
    }

    /// Acknowledges the message at its durable, which otherwise remembers for ever how often it was delivered.
    async fn acknowledge(&self, fallen: &Fallen<'_>) {
        let Fallen {
            stream,
            durable,
            sequence,
            attempts,
            ..
        } = fallen;
        // Stream sequence; the place among deliveries, which no message has; time and what waits, which nobody reads.
        let subject = format!("$JS.ACK.{stream}.{durable}.{attempts}.{sequence}.0.0.0");
        let sent = self.link.client.publish(subject, "+ACK".into()).await;
        if let Err(error) = sent {
            tracing::debug!(stream, durable, sequence, %error, "not acknowledged at its durable");
        }
    }
}
