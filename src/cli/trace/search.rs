//! Reading a stream for what is about one device: a consumer that nobody acknowledges, gone with the look.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, Info, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{Context, ErrorCode};
use futures_util::{StreamExt as _, TryStreamExt as _};
use time::OffsetDateTime;

use crate::jetstream::Link;
use crate::message::{Message, covers};

/// How many messages of one stream are looked at; a device that has more since then is looked for with a later start.
const LOOK_AT_MAX: u64 = 200_000;
/// How many messages are asked for at once.
const BATCH: usize = 1_000;
/// A server that is silent for so long has no more.
const SILENCE: Duration = Duration::from_secs(5);

/// A stored message.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) stream: String,
    pub(super) sequence: u64,
    /// When it was stored.
    pub(super) stored: OffsetDateTime,
    pub(super) message: Message,
}

impl Found {
    /// `<stream>:<sequence>`
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.stream, self.sequence)
    }

    /// A header's value; empty when there is none of that name.
    pub(super) fn header(&self, name: &str) -> &str {
        self.message.headers.get(name).unwrap_or_default()
    }
}

/// What a look at a stream gave.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) found: Vec<Found>,
    /// Why it may not be all.
    pub(super) incomplete: Option<String>,
}

/// From where on to look.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    Time(OffsetDateTime),
    LastOfEachSubject,
}

/// What a durable has done with a message.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Handling {
    pub(super) durable: String,
    pub(super) state: &'static str,
}

/// Looks at all messages under the filters that are stored from `from` to `until`, and keeps some.
pub(super) async fn look(
    jetstream: &Context,
    stream: &str,
    filters: &[String],
    (from, until): (Start, OffsetDateTime),
    keep: impl Fn(&Found) -> bool,
) -> Result<Look> {
    let stream = match jetstream.get_stream(stream).await {
        Ok(stream) => stream,
        Err(error) if is_missing(&error.kind()) => {
            return Ok(Look {
                incomplete: Some(format!("there is no stream {stream}")),
                ..Look::default()
            });
        }
        Err(error) => return Err(error).with_context(|| format!("stream {stream}")),
    };
    let mut look = Look::default();
    let consumer = stream
        .create_consumer(config(filters.to_vec(), from))
        .await?;
    let pending = consumer.cached_info().num_pending;
    if pending > LOOK_AT_MAX {
        look.incomplete = Some(format!(
            "{} has {pending} messages to look at, of which the first {LOOK_AT_MAX} were",
            stream.cached_info().config.name
        ));
    }
    let mut left = pending.min(LOOK_AT_MAX);
    'all: while left > 0 {
        let batch = usize::try_from(left).unwrap_or(BATCH).min(BATCH);
        let fetch = consumer.fetch().max_messages(batch).expires(SILENCE);
        let mut messages = fetch.messages().await?;
        let before = left;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| anyhow::anyhow!(error))?;
            left = left.saturating_sub(1);
            let found = read(message)?;
            if found.stored > until {
                break 'all;
            }
            if keep(&found) {
                look.found.push(found);
            }
        }
        if left == before {
            break; // What was there is gone by now.
        }
    }
    let name = &consumer.cached_info().name;
    // If it cannot be deleted, it ends by itself.
    stream.delete_consumer(name).await.ok();
    Ok(look)
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn config(filter_subjects: Vec<String>, from: Start) -> pull::Config {
    pull::Config {
        ack_policy: AckPolicy::None,
        filter_subjects,
        deliver_policy: match from {
            Start::Time(start_time) => DeliverPolicy::ByStartTime { start_time },
            Start::LastOfEachSubject => DeliverPolicy::LastPerSubject,
        },
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_secs(30),
        ..pull::Config::default()
    }
}

fn read(message: async_nats::jetstream::Message) -> Result<Found> {
    let info = message.info().map_err(|error| anyhow::anyhow!(error))?;
    Ok(Found {
        stream: info.stream.to_owned(),
        sequence: info.stream_sequence,
        stored: info.published,
        message: Link::read(message.message),
    })
}

/// The durables of a stream, each as it is now; none if there is no such stream.
pub(super) async fn durables(jetstream: &Context, stream: &str) -> Result<Vec<Info>> {
    let Ok(stream) = jetstream.get_stream_no_info(stream).await else {
        return Ok(Vec::new());
    };
    let consumers = stream.consumers().try_filter(|consumer| {
        let is_durable = consumer.config.durable_name.is_some();
        std::future::ready(is_durable)
    });
    let mut durables: Vec<Info> = consumers.try_collect().await?;
    durables.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(durables)
}

/// What those of them that want a message have done with it.
pub(super) fn handlings(durables: &[Info], found: &Found) -> Vec<Handling> {
    let wants = |durable: &&Info| {
        let config = &durable.config;
        let one = Some(&config.filter_subject).filter(|filter| !filter.is_empty());
        let mut filters = config.filter_subjects.iter().chain(one).peekable();
        let wants_all = filters.peek().is_none();
        wants_all || filters.any(|filter| covers(filter, &found.message.subject))
    };
    let of_stream = durables
        .iter()
        .filter(|durable| durable.stream_name == found.stream);
    let handlings = of_stream.filter(wants).map(|durable| Handling {
        durable: durable.name.clone(),
        state: match found.sequence {
            sequence if sequence <= durable.ack_floor.stream_sequence => "acknowledged",
            sequence if sequence <= durable.delivered.stream_sequence => {
                "delivered, perhaps acknowledged: an earlier one is not"
            }
            _ => "waits for its consumer",
        },
    });
    handlings.collect()
}
