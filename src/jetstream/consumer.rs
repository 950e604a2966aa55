//! A durable pull consumer: its messages are shared by all who pull, on any node, each message given to one of them.
//!
//! One pull at a time, of as many messages as its caller has room for. What is not answered comes again: at once after
//! [`Answer::Nak`], later after [`Answer::NakAfter`], else when the consumer's `ack_wait` is over without [`Answer::Progress`]. Answers are sent, not confirmed: one that
//! is lost with a connection means that its message comes once more. What was in flight over an outage comes again the
//! same way.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{StatusCode, Subscriber};
use futures_util::StreamExt;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::client::State;
use super::provision::{self, refused};
use super::{Error, Link};
use crate::delivery;
pub use crate::delivery::{Answer, Delivered, Next, Redelivery};
use crate::message::{Headers, Message, Subject};
use crate::telemetry;

/// How long the server keeps a pull that finds no messages. A pull cannot be taken back without losing what is on its way, so
/// who stops waits as long for its end.
const PULL_EXPIRES: Duration = Duration::from_secs(2);
/// After this a pull counts as lost without the server's word.
const PULL_LOST: Duration = Duration::from_secs(4);
/// What a durable consumer is.
#[derive(Debug, Clone)]
pub struct Durable {
    /// Of which stream.
    pub stream: Arc<str>,
    /// Its name: no `.`, `*`, `>`, `/`, space.
    pub name: Box<str>,
    /// For the operator who lists consumers.
    pub description: String,
    /// What it selects; no two may overlap.
    pub filters: Vec<Subject>,
    /// After this without a word a message is given to someone else.
    pub ack_wait: Duration,
    /// The server deletes the consumer when nobody has pulled for so long; zero for never.
    pub inactive_threshold: Duration,
}

/// A durable consumer as one puller sees it.
pub struct Consumer {
    link: Link,
    stream: Arc<str>,
    name: Box<str>,
    /// Where deliveries come, without the number of the pull.
    inbox: String,
    deliveries: Subscriber,
    pull: Option<Pull>,
    pulls: u64,
    state: watch::Receiver<State>,
    epoch: u64,
}

struct Pull {
    reply: String,
    remaining: usize,
    lost_at: Instant,
}

impl Consumer {
    /// Opens the consumer; one that does not exist yet is created and begins with stream sequence `start`.
    ///
    /// # Errors
    /// [`Error::Request`] when the server does not answer, [`Error::Stream`] when it refuses.
    pub async fn open(link: &Link, durable: &Durable, start: u64) -> Result<Self, Error> {
        create(link, durable, start).await?;
        let (stream, name) = (&durable.stream, &durable.name);
        Self::subscribe(link, stream, name).await
    }

    /// Opens a consumer that someone else created, and tells how it redelivers.
    ///
    /// # Errors
    /// [`Error::Request`] when the server does not answer, [`Error::Stream`] when there is no such consumer or stream.
    pub async fn bind(
        link: &Link,
        stream: &Arc<str>,
        name: &str,
    ) -> Result<(Self, Redelivery), Error> {
        let subject = format!("$JS.API.CONSUMER.INFO.{stream}.{name}");
        let info = provision::request(link, &subject, &Value::Null).await?;
        if let Some(error) = info.get("error") {
            return Err(refused(stream, error));
        }
        let redelivery = Redelivery::read(info.get("config").unwrap_or(&Value::Null));
        let consumer = Self::subscribe(link, stream, name).await?;
        Ok((consumer, redelivery))
    }

    async fn subscribe(link: &Link, stream: &Arc<str>, name: &str) -> Result<Self, Error> {
        let inbox = format!("_jw.pull.{:016x}", telemetry::random_u64());
        let subscribed = link.client.subscribe(format!("{inbox}.*")).await;
        let deliveries = subscribed.map_err(|error| Error::Request {
            subject: inbox.clone(),
            reason: error.to_string(),
        })?;
        let mut state = link.state.clone();
        let epoch = state.borrow_and_update().epoch;
        Ok(Self {
            link: link.clone(),
            stream: Arc::clone(stream),
            name: name.into(),
            inbox,
            deliveries,
            pull: None,
            pulls: 0,
            state,
            epoch,
        })
    }

    /// Whether messages may still come by the last [`pull`](Self::pull).
    #[must_use]
    pub fn is_pulling(&self) -> bool {
        self.pull.is_some()
    }

    /// Asks for at most so many messages, in place of what was asked for before.
    pub async fn pull(&mut self, messages: usize) {
        self.pulls += 1;
        let reply = format!("{}.{}", self.inbox, self.pulls);
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        let expires = PULL_EXPIRES.as_nanos();
        let body = format!(r#"{{"batch":{messages},"expires":{expires}}}"#);
        let sent = self
            .link
            .client
            .publish_with_reply(subject, reply.clone(), body.into())
            .await;
        // What could not be sent is lost like what was lost on its way.
        if let Err(error) = sent {
            tracing::debug!(consumer = &*self.name, %error, "pull not sent");
        }
        self.pull = Some(Pull {
            reply,
            remaining: messages,
            lost_at: Instant::now() + PULL_LOST,
        });
    }

    /// Waits for what comes next. Cancel-safe.
    pub async fn next(&mut self) -> Next {
        loop {
            let lost_at = self.pull.as_ref().map(|pull| pull.lost_at);
            let (state, epoch) = (&mut self.state, self.epoch);
            tokio::select! {
                delivery = self.deliveries.next() => {
                    let Some(delivery) = delivery else {
                        return Next::Gone;
                    };
                    if let Some(next) = self.read(delivery) {
                        return next;
                    }
                }
                () = wait_until(lost_at) => {
                    self.pull = None;
                    return Next::Ended;
                }
                epoch = next_epoch(state, epoch) => {
                    self.epoch = epoch;
                    // A server forgets a pull whose inbox was away.
                    self.pull = None;
                    return Next::Ended;
                }
            }
        }
    }

    /// Answers a message.
    pub async fn answer(&self, reply: Subject, answer: Answer) {
        let word = match answer {
            Answer::Ack => "+ACK".into(),
            Answer::Nak => "-NAK".into(),
            Answer::NakAfter(delay) => format!(r#"-NAK {{"delay":{}}}"#, delay.as_nanos()).into(),
            Answer::Terminate(reason) => format!("+TERM {reason}").into(),
            Answer::Progress => "+WPI".into(),
        };
        let sent = self.link.client.publish(reply.to_string(), word).await;
        if let Err(error) = sent {
            tracing::debug!(consumer = &*self.name, %error, "answer not sent, the message comes again");
        }
    }

    fn read(&mut self, delivery: async_nats::Message) -> Option<Next> {
        let Some(status) = delivery.status else {
            if let Some(pull) = &mut self.pull {
                pull.remaining = pull.remaining.saturating_sub(1);
                if pull.remaining == 0 {
                    self.pull = None;
                }
            }
            return delivered(delivery).map(Next::Message);
        };
        let current = |pull: &mut Pull| pull.reply == delivery.subject.as_str();
        self.pull.take_if(current)?;
        let description = delivery.description.unwrap_or_default();
        Some(match status {
            StatusCode::TIMEOUT => Next::Ended,
            StatusCode::NO_RESPONDERS => Next::Gone,
            _ if description.eq_ignore_ascii_case("consumer deleted") => Next::Gone,
            _ => Next::Refused(format!("{status} {description}")),
        })
    }
}

/// Creates the durable consumer, to begin with stream sequence `start`; one that exists stays as it is.
///
/// # Errors
/// As [`Consumer::open`].
pub async fn create(link: &Link, durable: &Durable, start: u64) -> Result<(), Error> {
    const EXISTS_OTHERWISE: u64 = 10_148;
    let (stream, name) = (&durable.stream, &durable.name);
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // A work queue takes no consumer that begins elsewhere than at its beginning.
    let (policy, begin) = match start {
        0 | 1 => ("all", None),
        start => ("by_start_sequence", Some(start)),
    };
    let mut body = json!({
        "stream_name": &**stream,
        "action": "create",
        "config": {
            "durable_name": &**name,
            "description": durable.description,
            "deliver_policy": policy,
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(durable.ack_wait),
            "max_deliver": -1,
            "max_ack_pending": -1,
            "filter_subjects": durable.filters.iter().map(|filter| &**filter).collect::<Vec<_>>(),
            "replay_policy": "instant",
            "inactive_threshold": nanoseconds(durable.inactive_threshold),
        },
    });
    let config = body.get_mut("config").and_then(Value::as_object_mut);
    if let (Some(begin), Some(config)) = (begin, config) {
        config.insert("opt_start_seq".to_owned(), begin.into());
    }
    let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
    let answer = provision::request(link, &subject, &body).await?;
    match answer.get("error") {
        Some(error) if code(error) != Some(EXISTS_OTHERWISE) => Err(refused(stream, error)),
        _ => Ok(()),
    }
}

/// Deletes the durable consumer, if there is one; who pulls from it finds it gone.
///
/// # Errors
/// As [`Consumer::open`].
pub async fn delete(link: &Link, stream: &str, name: &str) -> Result<(), Error> {
    const NOT_FOUND: u64 = 10_014;
    let subject = format!("$JS.API.CONSUMER.DELETE.{stream}.{name}");
    let answer = provision::request(link, &subject, &Value::Null).await?;
    match answer.get("error") {
        Some(error) if code(error) != Some(NOT_FOUND) => Err(refused(stream, error)),
        _ => Ok(()),
    }
}

fn code(error: &Value) -> Option<u64> {
    error.get("err_code").and_then(Value::as_u64)
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

async fn next_epoch(state: &mut watch::Receiver<State>, epoch: u64) -> u64 {
    let next = state.wait_for(|state| state.epoch != epoch).await;
    match next.map(|state| state.epoch) {
        Ok(epoch) => epoch,
        Err(_closed) => pending().await,
    }
}

/// What came, as plain data; nothing if it is no delivery of a consumer.
fn delivered(delivery: async_nats::Message) -> Option<Delivered> {
    let reply: Subject = delivery.reply.as_ref()?.as_str().into();
    let Place {
        attempt,
        sequence,
        stored_at,
    } = place(&reply)?;
    let mut headers = Headers::default();
    if let Some(received) = &delivery.headers {
        for (name, values) in received.iter() {
            let name = name.to_string();
            for value in values {
                if !delivery::ABOUT_STORED.contains(&name.as_str()) {
                    headers.push(&name, value.as_str());
                }
            }
        }
    }
    headers.push("Nats-Sequence", sequence.to_string());
    headers.push("Nats-Time-Stamp", stored_at);
    Some(Delivered {
        message: Message {
            subject: delivery.subject.as_str().into(),
            headers,
            payload: delivery.payload,
        },
        sequence,
        attempt,
        bytes: delivery.length,
        reply,
    })
}

/// What the reply subject of a delivery says about it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    attempt: u64,
    sequence: u64,
    stored_at: String,
}

/// Reads `$JS.ACK.<stream>.<consumer>.<attempt>.<sequence>.<number>.<time>.<left>`; the longer form has domain and account
/// behind `ACK` and may have more at its end (ADR-15).
fn place(reply: &str) -> Option<Place> {
    let tokens: Vec<_> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let skipped = match tokens.len() {
        7 => 0,
        9.. => 2,
        _ => return None,
    };
    let nanoseconds = tokens.get(skipped + 5)?.parse().ok()?;
    let stored_at = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()?;
    Some(Place {
        attempt: tokens.get(skipped + 2)?.parse().ok()?,
        sequence: tokens.get(skipped + 3)?.parse().ok()?,
        stored_at: stored_at.format(&Rfc3339).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_says_where_it_is_stored() {
        let expected = || {
            Some(Place {
                attempt: 3,
                sequence: 100,
                stored_at: "2026-09-24T08:27:50.084404Z".to_owned(),
            })
        };
        let end = "MQTT.share.3.100.7.1790238470084404000.42";
        assert_eq!(place(&format!("$JS.ACK.{end}")), expected());
        assert_eq!(place(&format!("$JS.ACK._.hash.{end}")), expected());
        assert_eq!(
            place(&format!("$JS.ACK.domain.hash.{end}.more")),
            expected()
        );
        for other in ["_INBOX.1", "$JS.ACK.a.b.1.x.1.1.1", "$JS.ACK.a.b.1.2.3.4"] {
            assert_eq!(place(other), None, "{other}");
        }
    }
}
