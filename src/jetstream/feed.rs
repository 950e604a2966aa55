//! Every message of a stream behind a position, once and in order, for ever: one ordered push consumer.
//!
//! The consumer is ephemeral, in memory and without acknowledgements. It numbers what it delivers, so what is missing is
//! noticed with the next message or heartbeat, and a new consumer goes on behind the last message that was given. The
//! server sends no more than its flow control allows, which is answered only as messages are taken: what waits here is bounded
//! by its window (32 MiB) and by the connection's subscription capacity; what does not fit is read again.
//!
//! The client's own ordered consumer is not used: it does not notice that a stream was replaced, whose sequences begin
//! again, and would deliver nothing until they have passed the old ones.

use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::client::State;
use super::delivery::Delivery;
use super::direct::{Direct, Info};
use super::tries::Error;
use super::{Link, Stored};
use crate::message::Subject;
use crate::telemetry;

/// How often the server says that the consumer lives, when it has nothing to deliver.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Silence after which the consumer is taken for dead.
const SILENCE_MAX: Duration = Duration::from_millis(1750);
/// When the server removes a consumer that nobody listens to.
const INACTIVE_MAX: Duration = Duration::from_secs(5);
/// How long a replicated stream that ends before our position gets to prove that it has not lost anything: a leader that
/// was just elected may not have applied all that it has.
const SETTLE: Duration = Duration::from_secs(5);
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// One event of a [`Feed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fed {
    /// The next message.
    Message(Stored),
    /// The stream was replaced by another one of the same name, or has lost its end: sequences up to here are used, those
    /// behind it will be given out again. What is remembered of higher sequences means nothing any more.
    Reset(u64),
}

/// Follows one stream.
pub struct Feed {
    direct: Direct,
    filters: Vec<Subject>,
    connection: watch::Receiver<State>,
    /// The stream's time of creation, which tells it from its successor.
    created: String,
    /// The sequence of the last message that was given.
    position: u64,
    consumer: Option<Consumer>,
    /// Since when the stream ends before the position.
    short_since: Option<Instant>,
    backoff: Duration,
}

struct Consumer {
    messages: Subscriber,
    /// How many it has delivered.
    delivered: u64,
}

impl Feed {
    /// Follows the stream from now on; gives also the last sequence at this moment, behind which nothing will be missing.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such stream, [`Error::Unanswered`].
    pub async fn start(
        link: &Link,
        stream: &str,
        filters: &[Subject],
    ) -> Result<(Self, u64), Error> {
        let direct = Direct::new(link, stream);
        let info = direct.info(None).await?;
        let feed = Self::after(direct, filters, info.created, info.last_sequence);
        Ok((feed, info.last_sequence))
    }

    /// Follows the stream from its first message on.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn from_first(link: &Link, stream: &str, filters: &[Subject]) -> Result<Self, Error> {
        let direct = Direct::new(link, stream);
        let info = direct.info(None).await?;
        Ok(Self::after(direct, filters, info.created, 0))
    }

    /// Follows the stream of that time of creation, behind this sequence. If the stream is another one by now, or ends before, the
    /// first event is [`Fed::Reset`]. Nothing is asked yet.
    #[must_use]
    pub fn resume(
        link: &Link,
        stream: &str,
        filters: &[Subject],
        created: &str,
        position: u64,
    ) -> Self {
        let direct = Direct::new(link, stream);
        Self::after(direct, filters, created.to_owned(), position)
    }

    fn after(direct: Direct, filters: &[Subject], created: String, position: u64) -> Self {
        let mut connection = direct.link().state.clone();
        connection.mark_unchanged();
        Self {
            direct,
            filters: filters.to_vec(),
            connection,
            created,
            position,
            consumer: None,
            short_since: None,
            backoff: BACKOFF_MIN,
        }
    }

    /// Names the stream that is followed now: its time of creation.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.created
    }

    /// The next event; waits as long as it takes, whatever happens to NATS. May be dropped and called again.
    pub async fn next(&mut self) -> Fed {
        loop {
            let Some(consumer) = &mut self.consumer else {
                match self.open().await {
                    Ok(None) => self.backoff = BACKOFF_MIN,
                    Ok(Some(reset)) => return reset,
                    Err(reason) => self.wait(&reason).await,
                }
                continue;
            };
            let delivery = tokio::select! {
                biased;
                message = timeout(SILENCE_MAX, consumer.messages.next()) => match message {
                    Ok(Some(message)) => Delivery::read(message, &mut consumer.delivered),
                    Ok(None) | Err(_) => Delivery::Broken,
                },
                // A consumer in memory does not survive its server; there is no need to wait until its silence is noticed.
                _reconnected = self.connection.changed() => Delivery::Broken,
            };
            match delivery {
                Delivery::Message(stored) => {
                    self.position = stored.sequence;
                    return Fed::Message(stored);
                }
                Delivery::Alive(None) => {}
                Delivery::Alive(Some(reply)) => {
                    // Lost with the connection at worst, and then the consumer is made anew.
                    let client = &self.direct.link().client;
                    drop(client.publish(reply, Bytes::new()).await);
                }
                Delivery::Broken => {
                    tracing::debug!(
                        stream = self.direct.stream(),
                        position = self.position,
                        "feed goes on with a new consumer"
                    );
                    self.consumer = None;
                }
            }
        }
    }

    async fn wait(&mut self, reason: &str) {
        if self.direct.link().is_connected() {
            tracing::warn!(stream = self.direct.stream(), reason, "feed waits");
        }
        sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }

    /// Makes a consumer behind the position, unless the stream is not the one whose position it is.
    async fn open(&mut self) -> Result<Option<Fed>, String> {
        self.connection.mark_unchanged();
        let consumer = self.create().await?;
        // Asked afterwards: if the stream is replaced from now on, the consumer goes with it, and that will be noticed.
        let info = self.direct.info(None).await;
        let info = info.map_err(|error| error.to_string())?;
        let short_since = *self.short_since.get_or_insert_with(Instant::now);
        let place = place(&info, &self.created, self.position, short_since.elapsed());
        if place != Place::Unclear {
            self.short_since = None;
        }
        let (stream, before) = (self.direct.stream(), self.position);
        match place {
            Place::Here => {
                self.consumer = Some(consumer);
                Ok(None)
            }
            Place::Unclear => {
                let last = info.last_sequence;
                Err(format!("it ends at {last}, expected {before} or later"))
            }
            Place::Reset(position) => {
                tracing::error!(
                    stream,
                    before,
                    position,
                    "the stream's sequences begin again"
                );
                (self.created, self.position) = (info.created, position);
                Ok(Some(Fed::Reset(position)))
            }
        }
    }

    async fn create(&self) -> Result<Consumer, String> {
        let client = &self.direct.link().client;
        let stream = self.direct.stream();
        let inbox = client.new_inbox();
        let messages = client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| error.to_string())?;
        let name = format!("jetway-{:016x}", telemetry::random_u64());
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let query = json!({
            "stream_name": stream,
            "config": {
                "name": name,
                "deliver_subject": inbox,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": self.position + 1,
                "filter_subjects": self.filters.iter().map(|filter| &**filter).collect::<Vec<_>>(),
                "ack_policy": "none",
                "replay_policy": "instant",
                "flow_control": true,
                "idle_heartbeat": nanos(HEARTBEAT),
                "inactive_threshold": nanos(INACTIVE_MAX),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let api = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
        match self.direct.api(&api, &query).await {
            Ok(Ok(_created)) => Ok(Consumer {
                messages,
                delivered: 0,
            }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How a stream goes on from a position in it.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Behind the position.
    Here,
    /// It ends before the position, which may be for a moment only.
    Unclear,
    /// Behind this sequence.
    Reset(u64),
}

/// `short_for`: for how long the stream has been seen to end before the position.
fn place(info: &Info, created: &str, position: u64, short_for: Duration) -> Place {
    if info.created != created {
        Place::Reset(0)
    } else if info.last_sequence >= position {
        Place::Here
    } else if info.replicas > 1 && short_for < SETTLE {
        Place::Unclear
    } else {
        Place::Reset(info.last_sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_ends_before_the_position_is_believed_at_once_only_without_replicas() {
        let info = |created: &str, last_sequence, replicas| Info {
            created: created.to_owned(),
            last_sequence,
            replicas,
            has_subjects: false,
        };
        let place = |info, short_for| place(&info, "a", 10, Duration::from_secs(short_for));
        assert_eq!(place(info("a", 10, 3), 9), Place::Here);
        assert_eq!(place(info("a", 11, 1), 0), Place::Here);
        assert_eq!(place(info("a", 9, 1), 0), Place::Reset(9));
        assert_eq!(place(info("a", 9, 3), 0), Place::Unclear);
        assert_eq!(place(info("a", 9, 3), 9), Place::Reset(9));
        assert_eq!(place(info("b", 99, 3), 0), Place::Reset(0));
    }
}
