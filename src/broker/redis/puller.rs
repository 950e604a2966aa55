//! Pulling from a durable of Redis, and answering.
//!
//! A pull is a future that this puller keeps: whoever waits for it may stop, and begin again. It waits on a connection of its own, as
//! Redis answers nothing else on one that waits. All pullers are one consumer of the group: which of them has a message is nobody's
//! question, so none of them is left behind in Redis.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::ConnectionManager;
use redis::{RedisResult, Script, Value};
use tokio::time::{Instant, timeout};

use super::Broker;
use super::connection::connection;
use super::delivery::{Pulled, idle_ms, millis, pattern, steps};
use crate::broker::Durable;
use crate::delivery::{Answer, Delivered, Next, Redelivery};
use crate::message::Subject;

/// How long a pull is kept that finds no messages.
const PULL_EXPIRES: Duration = Duration::from_secs(2);
/// How long Redis waits for something new before it is asked for what comes again.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// For one call with its answer.
const CALL_MAX: Duration = Duration::from_secs(3);

/// Who takes the messages of a durable, one of perhaps many.
pub struct Puller {
    group: Arc<Group>,
    /// Where the next look for what comes again begins.
    cursor: String,
    ready: VecDeque<Delivered>,
    /// Never locked: it makes of a future something that may be looked at from elsewhere.
    pull: Mutex<Option<BoxFuture<'static, RedisResult<Pulled>>>>,
    is_pulling: bool,
}

/// A durable, and how it is asked.
struct Group {
    broker: Broker,
    /// For waiting alone.
    waiting: ConnectionManager,
    durable: Durable,
    pull: Script,
    answer: Script,
    /// Whether the last call was answered.
    connected: AtomicBool,
}

impl Broker {
    /// A puller of this durable, one of perhaps many, and how it redelivers; none if there is no such durable.
    ///
    /// # Errors
    /// When Redis is away.
    pub async fn bind(
        &self,
        stream: &str,
        durable: &str,
    ) -> RedisResult<Option<(Puller, Redelivery)>> {
        let Some(durable) = self.durable(stream, durable).await? else {
            return Ok(None);
        };
        let redelivery = durable.redelivery.clone();
        let group = Group {
            broker: self.clone(),
            waiting: connection(&self.client)?,
            durable,
            pull: Script::new(include_str!("pull.lua")),
            answer: Script::new(include_str!("answer.lua")),
            connected: true.into(),
        };
        let puller = Puller {
            group: Arc::new(group),
            cursor: "0-0".to_owned(),
            ready: VecDeque::new(),
            pull: Mutex::default(),
            is_pulling: false,
        };
        Ok(Some((puller, redelivery)))
    }
}

impl Puller {
    /// Whether messages may still come by the last [`pull`](Self::pull).
    #[must_use]
    pub fn is_pulling(&self) -> bool {
        self.is_pulling || !self.ready.is_empty()
    }

    /// Whether Redis answered when it was asked last.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.group.connected.load(Ordering::Relaxed)
    }

    /// Asks for at most so many messages, once the last pull is over.
    pub fn pull(&mut self, messages: usize) {
        if !self.is_pulling {
            let (group, cursor) = (Arc::clone(&self.group), self.cursor.clone());
            *self.pulling() = Some(Box::pin(async move { group.pull(&cursor, messages).await }));
            self.is_pulling = true;
        }
    }

    /// Waits for what comes next. Cancel-safe.
    pub async fn next(&mut self) -> Next {
        if let Some(delivered) = self.ready.pop_front() {
            return Next::Message(delivered);
        }
        let Some(pull) = self.pulling() else {
            return pending().await;
        };
        let pulled = pull.await;
        *self.pulling() = None;
        self.is_pulling = false;
        match pulled {
            Ok(pulled) => {
                self.cursor.clone_from(&pulled.cursor);
                self.ready.extend(pulled.delivered());
                self.ready.pop_front().map_or(Next::Ended, Next::Message)
            }
            Err(error) if error.code() == Some("NOGROUP") => Next::Gone,
            Err(error) => Next::Refused(error.to_string()),
        }
    }

    fn pulling(&mut self) -> &mut Option<BoxFuture<'static, RedisResult<Pulled>>> {
        self.pull.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a message. While Redis is away nothing is said, and the message comes again.
    pub async fn answer(&self, reply: &Subject, answer: Answer) {
        let durable = &*self.group.durable.name;
        if !self.is_connected() {
            tracing::debug!(durable, "answer not sent, the message comes again");
        } else if let Err(error) = self.group.answer(reply, answer).await {
            tracing::debug!(durable, %error, "answer not sent, the message comes again");
        }
    }
}

impl Group {
    /// Takes what is there, or waits for a while until something is.
    async fn pull(&self, cursor: &str, messages: usize) -> RedisResult<Pulled> {
        let until = Instant::now() + PULL_EXPIRES;
        let mut cursor = cursor.to_owned();
        loop {
            let pulled = self.take(&cursor, messages).await?;
            if !pulled.is_empty() || Instant::now() >= until {
                return Ok(pulled);
            }
            let keys = self.broker.keys(&self.durable.stream);
            let mut read = redis::cmd("XREAD");
            read.arg("COUNT")
                .arg(1)
                .arg("BLOCK")
                .arg(millis(LOOK_INTERVAL));
            read.arg("STREAMS").arg(keys.stream).arg(&pulled.last);
            let read = read.query_async::<Value>(&mut self.waiting.clone()).await;
            // What it read is not ours before the group gives it to us.
            read.map(drop)?;
            cursor = pulled.cursor;
        }
    }

    async fn take(&self, cursor: &str, messages: usize) -> RedisResult<Pulled> {
        let (durable, keys) = (&self.durable, self.broker.keys(&self.durable.stream));
        let steps = steps(&durable.redelivery);
        let mut call = self.pull.key(&keys.stream);
        call.key(keys.dead(&durable.name))
            .arg(&*durable.name)
            .arg(messages)
            .arg(cursor)
            .arg(idle_ms(Duration::ZERO))
            .arg(durable.redelivery.deliveries_max.unwrap_or_default())
            .arg(self.broker.messages_max)
            .arg(steps.len())
            .arg(steps);
        for filter in &durable.filters {
            call.arg(pattern(filter));
        }
        self.call(&call).await
    }

    async fn answer(&self, reply: &Subject, answer: Answer) -> RedisResult<()> {
        let (durable, keys) = (&self.durable, self.broker.keys(&self.durable.stream));
        let (id, attempt) = reply.split_once('.').unwrap_or((reply, "0"));
        let wait = durable.redelivery.wait(attempt.parse().unwrap_or(0));
        let idle = |wait| ("idle", idle_ms(wait).to_string());
        let (word, value) = match answer {
            Answer::Ack => ("ack", String::new()),
            Answer::Nak => idle(Duration::ZERO),
            Answer::NakAfter(delay) => idle(delay),
            Answer::Progress => idle(wait),
            Answer::Terminate(reason) => ("dead", reason),
        };
        let mut call = self.answer.key(&keys.stream);
        call.key(keys.dead(&durable.name))
            .arg(&*durable.name)
            .arg(id)
            .arg(attempt)
            .arg(self.broker.messages_max)
            .arg(word)
            .arg(value);
        self.call::<u64>(&call).await.map(drop)
    }

    async fn call<T: redis::FromRedisValue>(
        &self,
        call: &redis::ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        let connection = &mut self.broker.connection.clone();
        let called = timeout(CALL_MAX, call.invoke_async(connection)).await;
        let called = called.unwrap_or_else(|_elapsed| {
            let late = std::io::ErrorKind::TimedOut;
            Err(std::io::Error::from(late).into())
        });
        // An error that Redis itself says is an answer too.
        let connected = called
            .as_ref()
            .err()
            .is_none_or(|error| error.code().is_some());
        self.connected.store(connected, Ordering::Relaxed);
        called
    }
}
