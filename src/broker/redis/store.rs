//! Storing: all messages of a wave in one pipeline, each by a script that stores an id once.
//!
//! Redis has nothing to say about a single message. So what is refused is refused here: a subject that no stream takes, and a payload
//! that a Redis may be set to end the connection for. All that Redis itself says is about its state: full, loading, read only.

use redis::{Pipeline, RedisError, RedisResult, Script};
use std::sync::atomic::Ordering;
use tokio::time::timeout;

use super::Broker;
use super::keys::{Keys, fields};
use crate::broker::{self, Durable, Fault, Layout, Posting, STORE_MAX, Stream, all};

/// The least that `proto-max-bulk-len` can be; above, Redis ends the connection, and nobody knows because of whom.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Stores to Redis what has a stream in a layout, and makes the layout's durables there.
pub struct Storing {
    broker: Broker,
    layout: Layout,
    script: Script,
    /// Cleared whenever Redis was away or knows of no durables: it may be empty.
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
            .key(keys.durables())
            .arg(window.max(1))
            .arg(self.broker.messages_max)
            .arg(fields(&posting.message));
        pipeline.invoke_script(&call);
    }

    /// Makes the durables, unless they are there.
    async fn prepare(&self) -> RedisResult<()> {
        if !self.provisioned.load(Ordering::Acquire) {
            self.broker.provision(&self.layout).await?;
            self.provisioned.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether each stream knows of its durables.
    async fn send(&self, pipeline: &Pipeline) -> RedisResult<Vec<RedisResult<bool>>> {
        self.prepare().await?;
        let connection = &mut self.broker.connection.clone();
        pipeline.query_async(connection).await
    }

    /// As [`send`](Self::send), in time.
    async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<RedisResult<bool>>, Fault> {
        let asked = timeout(STORE_MAX, self.send(pipeline)).await;
        let asked = asked.map(|answers| answers.map_err(|error| fault(&error)));
        let late = || Fault::Unanswered(format!("no answer within {STORE_MAX:?}"));
        let asked = asked.unwrap_or_else(|_elapsed| Err(late()));
        if asked.is_err() {
            self.provisioned.store(false, Ordering::Release);
        }
        asked
    }

    fn has_durables(&self, stream: &Stream) -> bool {
        let mut durables = self.layout.durables.iter();
        durables.any(|durable| durable.stream == stream.name)
    }
}

impl broker::Broker for Storing {
    async fn store(&self, postings: &[Posting]) -> Vec<Result<(), Fault>> {
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors().load_script(&self.script).ignore();
        let mut admitted = Vec::with_capacity(postings.len());
        for posting in postings {
            let stream = stream_of(&self.layout, posting);
            admitted.push(stream.inspect(|stream| self.add(&mut pipeline, stream, posting)));
        }
        if admitted.iter().all(Result::is_err) {
            return admitted
                .into_iter()
                .map(|stream| stream.map(drop))
                .collect();
        }
        let mut answers = match self.ask(&pipeline).await {
            Ok(answers) => answers.into_iter(),
            Err(fault) => return all(postings, &fault),
        };
        let mut stored = Vec::with_capacity(postings.len());
        let mut forgotten = false;
        for stream in admitted {
            stored.push(match stream {
                Err(refused) => Err(refused),
                Ok(stream) => match answers.next() {
                    Some(Ok(knows_durables)) => {
                        forgotten |= !knows_durables && self.has_durables(stream);
                        Ok(())
                    }
                    Some(Err(error)) => Err(fault(&error)),
                    None => Err(Fault::Unanswered("an answer is missing".to_owned())),
                },
            });
        }
        if forgotten {
            self.provisioned.store(false, Ordering::Release);
            // If not now, then with the next messages.
            drop(timeout(STORE_MAX, self.prepare()).await);
        }
        stored
    }
}

fn stream_of<'l>(layout: &'l Layout, posting: &Posting) -> Result<&'l Stream, Fault> {
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
