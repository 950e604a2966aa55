//! One message from its bytes to its outcome: read, find the handler, admit, handle, commit.
//!
//! It does not answer the server: the loop does, which alone knows the message's last delivery.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::event::original_subject;
use super::handlers::{Handler, Handlers};
use super::metrics::Metrics;
use super::trace::Trace;
use super::{Config, Event, Failure, Inbox, Transaction};
use crate::database::{Fate, fate};
use crate::event::Received;
use crate::jetstream::consumer::Delivered;
use crate::telemetry;
use crate::telemetry::otlp::{self, Spans};

/// Between two tries to reach the database.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);
/// Of so many in vain, one is worth a line.
const TRIES_PER_LINE: u32 = 60;
/// What the inbox has room for.
const EVENT_ID_BYTES_MAX: usize = 64;
/// The most that is told of why a message was given up.
const REASON_BYTES_MAX: usize = 512;

/// How the handling of a message ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Handled,
    Duplicate,
    Failed(String),
    Poison(String),
    /// The service stops, and nothing of it was kept.
    Abandoned,
}

/// What every handling needs.
pub(super) struct Bench {
    pub(super) config: Config,
    pub(super) handlers: Handlers,
    pub(super) inbox: Inbox,
    pub(super) metrics: Metrics,
    pub(super) spans: Spans,
    /// The service stops: do not wait for a database that is away.
    pub(super) stopping: CancellationToken,
    /// It has to stop now.
    pub(super) abandoned: CancellationToken,
}

impl Bench {
    /// Handles a message in a span of its own, in the message's trace.
    pub(super) async fn handle(self: Arc<Self>, delivered: Delivered) -> Ended {
        let parsed = Received::parse(&delivered.message.payload);
        let traceparent = delivered.message.headers.get("traceparent");
        let trace_id = parsed.as_ref().map_or("", |received| &received.trace_id);
        let trace = Trace::resume(traceparent, trace_id);
        let handling = self.spans.is_on().then(|| {
            let names = parsed.as_ref().map(|received| {
                let Received {
                    event_name,
                    event_id,
                    ..
                } = received;
                (event_name.to_string(), event_id.to_string())
            });
            (telemetry::now(), names.unwrap_or_default())
        });
        let subject = original_subject(&delivered.message.subject, &self.config.durable);
        let span = tracing::info_span!(
            "handle",
            durable = &*self.config.durable,
            %subject,
            sequence = delivered.sequence,
            attempt = delivered.attempt,
            trace_id = trace.trace_id,
            parent_id = trace.parent_id,
            span_id = trace.span_id,
            event = tracing::field::Empty,
            event_id = tracing::field::Empty,
        );
        let ended = async {
            let received = match parsed {
                Ok(received) => received,
                Err(fault) => return Ended::Poison(format!("no event: {fault}")),
            };
            let span = tracing::Span::current();
            span.record("event", &received.event_name);
            span.record("event_id", &received.event_id);
            let event = Event::new(received, &delivered, subject, &trace);
            let ended = AssertUnwindSafe(self.dispatch(&event)).catch_unwind();
            let ended = self.abandoned.run_until_cancelled(ended).await;
            let panicked = |_panic| Ended::Failed("the handler panicked".to_owned());
            ended.map_or(Ended::Abandoned, |ended| ended.unwrap_or_else(panicked))
        };
        let ended = async {
            let ended = ended.await;
            match &ended {
                Ended::Failed(error) => tracing::warn!(error, "event not handled"),
                Ended::Poison(reason) => tracing::warn!(reason, "event given up"),
                Ended::Handled | Ended::Duplicate | Ended::Abandoned => {
                    tracing::debug!(?ended, "event done");
                }
            }
            ended
        };
        let ended = ended.instrument(span).await;
        if let Some((start, names)) = handling {
            self.end_span(&trace, start, &names, delivered.attempt, &ended);
        }
        ended
    }

    /// `names` are the event's name and id.
    fn end_span(
        &self,
        trace: &Trace,
        start: Duration,
        names: &(String, String),
        attempt: u64,
        ended: &Ended,
    ) {
        let attempt = attempt.to_string();
        let mut attributes = vec![
            ("messaging.consumer.group.name", &*self.config.durable),
            ("jetway.event", &*names.0),
            ("messaging.message.id", &*names.1),
            ("jetway.attempt", &*attempt),
        ];
        let error = match ended {
            Ended::Failed(_) => Some("failed"),
            Ended::Poison(_) => Some("poison"),
            Ended::Abandoned => Some("abandoned"),
            Ended::Handled | Ended::Duplicate => None,
        };
        attributes.extend(error.map(|error| (otlp::ERROR, error)));
        let (parent, times) = (trace.parent_id.as_deref(), (start, telemetry::now()));
        self.spans
            .record_own("handle", &trace.to_string(), parent, times, &attributes);
    }

    async fn dispatch(&self, event: &Event) -> Ended {
        let received = &event.received;
        if received.event_id.len() > EVENT_ID_BYTES_MAX {
            return Ended::Poison(format!("event_id: more than {EVENT_ID_BYTES_MAX} bytes"));
        }
        let (name, version) = (&received.event_name, &received.event_version);
        let Some(handler) = self.handlers.find(name, version) else {
            return Ended::Poison(reason(&format!("no handler for event {name} {version}")));
        };
        let transaction = match self.admit(&received.event_id).await {
            Ok(transaction) => transaction,
            Err(ended) => return ended,
        };
        let begun = Instant::now();
        let ended = self.run(handler, event, transaction).await;
        self.metrics
            .handling_seconds
            .observe(begun.elapsed().as_secs_f64());
        match ended {
            Ok(()) => Ended::Handled,
            Err(Failure::Retry(error)) => Ended::Failed(reason(&error)),
            Err(Failure::Poison(why)) => Ended::Poison(reason(&why)),
        }
    }

    /// A database that is away is nothing that a message can be blamed for: it waits, and takes no step of the ladder.
    async fn admit(&self, event_id: &str) -> Result<Transaction, Ended> {
        let durable = &self.config.durable;
        let mut tries = 0;
        loop {
            match self.inbox.admit(durable, event_id).await {
                Ok(transaction) => return transaction.ok_or(Ended::Duplicate),
                Err(error) if fate(&error) == Fate::Refused => {
                    return Err(Ended::Poison(reason(&format!("event_id: {error}"))));
                }
                Err(error) if tries % TRIES_PER_LINE == 0 => {
                    tracing::warn!(%error, tries, "the inbox does not take an event yet");
                }
                Err(_said_before) => {}
            }
            tries += 1;
            tokio::select! {
                () = self.stopping.cancelled() => return Err(Ended::Abandoned),
                () = sleep(DATABASE_PAUSE) => {}
            }
        }
    }

    async fn run(
        &self,
        handler: &Handler,
        event: &Event,
        mut transaction: Transaction,
    ) -> Result<(), Failure> {
        let limit = self.config.handling_max;
        let handled = timeout(limit, async {
            handler(event, &mut transaction).await?;
            Ok(transaction.commit().await?)
        });
        let late = |_elapsed| Failure::Retry(format!("the handler took more than {limit:?}"));
        handled.await.map_err(late)?
    }
}

/// A text as the server takes it for a reason: one line, not too long.
fn reason(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default();
    text.replace(char::is_control, " ")
}

#[cfg(test)]
#[path = "handling_tests.rs"]
mod tests;
