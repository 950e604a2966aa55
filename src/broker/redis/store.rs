//! Storing: all messages of a wave in one pipeline, each by a script that stores an id once.
//!
//! Redis has nothing to say about a single message. So what is refused is refused here: a subject that no stream takes, and a payload
//! that a Redis may be set to end the connection for. All that Redis itself says is about its state: full, loading, read only.

use redis::{Pipeline, RedisError, RedisResult, Script};
use std::sync::atomic::Ordering;
use tokio::time::timeout;

use super::keys::fields;
use super::{Broker, Keys};
use crate::broker::{self, Durable, Fault, Layout, Posting, STORE_MAX, Stream, all};

/// The least that `proto-max-bulk-len` can be; above, Redis ends the connection, and nobody knows because of whom.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Stores to Redis what has a stream in a layout, and makes the layout's durables there.
pub struct Storing {
    broker: Broker,
    layout: Layout,
    script: Script,
    /// Cleared whenever Redis was away: it may have come back empty.
    provisioned: std::sync::atomic::AtomicBool,
}

impl Storing {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(broker: &Broker, layout: Layout) -> Self {
        Self {
            broker: broker.clone(),
            layout,
            script: Script::new(include_str!("store.lua")),
            provisioned: false.into(),
        }
    }

    fn add(&self, pipeline: &mut Pipeline, stream: &Stream, posting: &Posting) {
        let keys = self.broker.keys(&stream.name);
        let window = u64::try_from(stream.duplicate_window.as_millis()).unwrap_or(u64::MAX);
        let mut call = self.script.key(&keys.stream);
        call.key(keys.id(posting.id))
            .arg(window.max(1))
            .arg(self.broker.messages_max)
            .arg(fields(&posting.message));
        pipeline.invoke_script(&call);
    }

    async fn send(&self, pipeline: &Pipeline) -> RedisResult<Vec<RedisResult<u8>>> {
        if !self.provisioned.load(Ordering::Acquire) {
            self.broker.provision(&self.layout).await?;
            self.provisioned.store(true, Ordering::Release);
        }
        pipeline
            .query_async(&mut self.broker.connection.clone())
            .await
    }
}

impl broker::Broker for Storing {
    async fn store(&self, postings: &[Posting]) -> Vec<Result<(), Fault>> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors().load_script(&self.script).ignore();
        let mut added = Vec::with_capacity(postings.len());
        for posting in postings {
            let stream = admitted(&self.layout, posting);
            added.push(stream.map(|stream| self.add(&mut pipeline, stream, posting)));
        }
        if added.iter().all(Result::is_err) {
            return added;
        }
        let answers = match timeout(STORE_MAX, self.send(&pipeline)).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => {
                self.provisioned.store(false, Ordering::Release);
                return all(postings, &fault(&error));
            }
            Err(_elapsed) => {
                self.provisioned.store(false, Ordering::Release);
                let late = format!("no answer within {STORE_MAX:?}");
                return all(postings, &Fault::Unanswered(late));
            }
        };
        let mut answers = answers.into_iter();
        let answer = || match answers.next() {
            Some(answer) => answer.map(drop).map_err(|error| fault(&error)),
            None => Err(Fault::Unanswered("an answer is missing".to_owned())),
        };
        let mut answer = answer;
        added
            .into_iter()
            .map(|added| added.and_then(|()| answer()))
            .collect()
    }
}

fn admitted<'l>(layout: &'l Layout, posting: &Posting) -> Result<&'l Stream, Fault> {
    let bytes = posting.message.payload.len();
    if bytes > PAYLOAD_BYTES_MAX {
        let reason = format!("a payload of {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are stored");
        return Err(Fault::Refused(reason));
    }
    layout.stream_of(&posting.message.subject)
}

fn fault(error: &RedisError) -> Fault {
    match error.code().is_some() || error.is_connection_refusal() {
        true => Fault::Away(error.to_string()),
        false => Fault::Unanswered(error.to_string()),
    }
}

impl Broker {
    /// Makes the groups of the durables, and says how they redeliver; what is there stays, but for the latter.
    ///
    /// # Errors
    /// When Redis is away, or does not want to.
    pub async fn provision(&self, layout: &Layout) -> RedisResult<()> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for durable in &layout.durables {
            self.declare(&mut pipeline, durable);
        }
        if layout.durables.is_empty() {
            return Ok(());
        }
        let connection = &mut self.connection.clone();
        let answers: Vec<RedisResult<redis::Value>> = pipeline.query_async(connection).await?;
        let mut faults = answers.into_iter().filter_map(Result::err);
        let other = faults.find(|error| error.code() != Some("BUSYGROUP"));
        other.map_or(Ok(()), Err)
    }

    fn declare(&self, pipeline: &mut Pipeline, durable: &Durable) {
        let Keys { stream } = &self.keys(&durable.stream);
        let start = match durable.only_new {
            true => "$",
            false => "0",
        };
        pipeline.xgroup_create_mkstream(stream, &*durable.name, start);
        let config = durable.config().to_string();
        let durables = self.keys(&durable.stream).durables();
        pipeline.hset(durables, &*durable.name, config);
    }
}
