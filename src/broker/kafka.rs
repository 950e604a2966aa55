//! Kafka: a topic for each stream, the aggregate as the key, so that its messages are in one partition and keep their order.
//!
//! Topics are not made here: how many partitions they have is the operator's to say. A partition is chosen as Java's clients
//! choose it, so that others may write with the same keys. The client knows no idempotent producer: a message that was not answered is
//! stored again, and consumers have to know it by the header `Nats-Msg-Id`; its first copy is in its place. What is wrong with a message itself refuses
//! the batch that it is in: then each of the batch is sent once more alone.
//!
//! Only publishing is here; services consume with any client.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rskafka::BackoffConfig;
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::time::{Instant, timeout_at};

use super::{Fault, Layout, Posting, STORE_MAX, all};
use crate::telemetry::now_unix_ms;

/// The client tries again by itself for so long.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Where Kafka is, and how it is used.
#[derive(Debug, Clone)]
pub struct Config {
    /// `kafka://host:port[,host:port…]`: some brokers of the cluster.
    pub url: String,
    /// What topics begin with, before the stream's name.
    pub prefix: Box<str>,
}

impl Config {
    /// Kafka at these addresses, with topics called as the streams.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: "".into(),
        }
    }
}

/// A Kafka cluster; connected when it is needed, and anew when it did not answer.
pub struct Broker {
    config: Config,
    layout: Layout,
    cluster: Mutex<Option<Arc<Cluster>>>,
}

struct Cluster {
    client: Client,
    topics: Mutex<HashMap<String, Topic>>,
}

/// The partitions of a topic, in their order.
type Topic = Arc<[PartitionClient]>;

/// Messages for one partition, by their place among all.
struct Batch {
    topic: Topic,
    partition: usize,
    places: Vec<usize>,
}

impl Broker {
    /// Kafka as configured, for the streams of a layout. It need not be there yet.
    #[must_use]
    pub fn new(config: Config, layout: Layout) -> Self {
        Self {
            config,
            layout,
            cluster: Mutex::default(),
        }
    }

    async fn cluster(&self) -> Result<Arc<Cluster>, Error> {
        let cluster = locked(&self.cluster).clone();
        if let Some(cluster) = cluster {
            return Ok(cluster);
        }
        let url = &*self.config.url;
        let brokers = url.strip_prefix("kafka://").unwrap_or(url);
        let brokers = brokers.trim_end_matches('/').split(',').map(str::to_owned);
        let backoff = BackoffConfig {
            max_backoff: Duration::from_secs(1),
            deadline: Some(RETRY_MAX),
            ..BackoffConfig::default()
        };
        let client = ClientBuilder::new(brokers.collect())
            .client_id("jetway")
            .backoff_config(backoff)
            .build()
            .await?;
        let cluster = Arc::new(Cluster {
            client,
            topics: Mutex::default(),
        });
        *locked(&self.cluster) = Some(Arc::clone(&cluster));
        Ok(cluster)
    }

    async fn store_before(
        &self,
        postings: &[Posting],
        deadline: Instant,
    ) -> Vec<Result<(), Fault>> {
        let mut stored = Vec::with_capacity(postings.len());
        let mut batches: HashMap<(String, usize), Batch> = HashMap::new();
        for (place, posting) in postings.iter().enumerate() {
            let found = timeout_at(deadline, self.partition(posting)).await;
            match found.unwrap_or_else(|_elapsed| Err(Fault::Away("not connected".to_owned()))) {
                Ok((name, topic, partition)) => {
                    let batch = batches.entry((name, partition)).or_insert_with(|| Batch {
                        topic,
                        partition,
                        places: Vec::new(),
                    });
                    batch.places.push(place);
                    stored.push(Ok(()));
                }
                // The others would wait for the same.
                Err(fault @ (Fault::Away(_) | Fault::Unanswered(_))) => {
                    return all(postings, &fault);
                }
                Err(refused) => stored.push(Err(refused)),
            }
        }
        let sent = batches.values().map(|batch| batch.send(postings, deadline));
        for (batch, answers) in batches.values().zip(join_all(sent).await) {
            for (place, answer) in batch.places.iter().zip(answers) {
                if let Some(of) = stored.get_mut(*place) {
                    *of = answer;
                }
            }
        }
        stored
    }

    /// Where a message goes: the topic's name, its partitions, and which of them.
    async fn partition(&self, posting: &Posting) -> Result<(String, Topic, usize), Fault> {
        let stream = self.layout.stream_of(&posting.message.subject)?;
        let name = format!("{}{}", self.config.prefix, stream.name);
        let cluster = self
            .cluster()
            .await
            .map_err(|error| Fault::Away(error.to_string()))?;
        let topic = cluster.topic(&name).await?;
        let count = u32::try_from(topic.len()).unwrap_or(u32::MAX).max(1);
        let partition = (murmur2(posting.key.as_bytes()) & 0x7fff_ffff) % count;
        Ok((name, topic, usize::try_from(partition).unwrap_or_default()))
    }
}

impl Cluster {
    async fn topic(&self, name: &str) -> Result<Topic, Fault> {
        let known = locked(&self.topics).get(name).cloned();
        if let Some(topic) = known {
            return Ok(topic);
        }
        let away = |error: Error| Fault::Away(error.to_string());
        let topics = self.client.list_topics().await.map_err(away)?;
        let topic = topics.into_iter().find(|topic| topic.name == name);
        let topic = topic.ok_or_else(|| Fault::Away(format!("there is no topic {name}")))?;
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let client = self
                .client
                .partition_client(name, partition, UnknownTopicHandling::Error);
            partitions.push(client.await.map_err(away)?);
        }
        let topic: Topic = partitions.into();
        locked(&self.topics).insert(name.to_owned(), Arc::clone(&topic));
        Ok(topic)
    }
}

impl Batch {
    async fn send(&self, postings: &[Posting], deadline: Instant) -> Vec<Result<(), Fault>> {
        let postings: Vec<_> = self
            .places
            .iter()
            .filter_map(|place| postings.get(*place))
            .collect();
        let together = self.produce(&postings, deadline).await;
        if !matches!(together, Err(Fault::Refused(_))) || postings.len() == 1 {
            return postings.iter().map(|_| together.clone()).collect();
        }
        let mut stored = Vec::with_capacity(postings.len());
        for posting in postings {
            stored.push(self.produce(&[posting], deadline).await);
        }
        stored
    }

    async fn produce(&self, postings: &[&Posting], deadline: Instant) -> Result<(), Fault> {
        let Some(partition) = self.topic.get(self.partition) else {
            return Err(Fault::Away("the topic has no partition".to_owned()));
        };
        let records = postings.iter().map(|posting| record(posting)).collect();
        let produced = partition.produce(records, Compression::NoCompression);
        match timeout_at(deadline, produced).await {
            Ok(produced) => produced.map(drop).map_err(|error| fault(&error)),
            Err(_elapsed) => Err(Fault::Unanswered(format!("no answer within {STORE_MAX:?}"))),
        }
    }
}

impl super::Broker for Broker {
    async fn store(&self, postings: &[Posting]) -> Vec<Result<(), Fault>> {
        let stored = self
            .store_before(postings, Instant::now() + STORE_MAX)
            .await;
        let lost = |stored: &Result<(), Fault>| {
            matches!(stored, Err(Fault::Away(_) | Fault::Unanswered(_)))
        };
        if stored.iter().any(lost) {
            *locked(&self.cluster) = None;
        }
        stored
    }
}

fn record(posting: &Posting) -> Record {
    let headers = posting.message.headers.iter();
    let headers: BTreeMap<_, _> = headers
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .collect();
    let now_ms = i64::try_from(now_unix_ms()).unwrap_or_default();
    Record {
        key: Some(posting.key.as_bytes().to_vec()),
        value: Some(posting.message.payload.to_vec()),
        headers,
        timestamp: DateTime::from_timestamp_millis(now_ms).unwrap_or_default(),
    }
}

fn fault(error: &Error) -> Fault {
    match error {
        Error::ServerError {
            protocol_error:
                ProtocolError::MessageTooLarge
                | ProtocolError::RecordListTooLarge
                | ProtocolError::InvalidRecord
                | ProtocolError::InvalidTimestamp
                | ProtocolError::PolicyViolation,
            ..
        } => Fault::Refused(error.to_string()),
        Error::ServerError { .. } | Error::Connection(_) => Fault::Away(error.to_string()),
        _ => Fault::Unanswered(error.to_string()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hash of keys by which Java's clients choose a partition: 32-bit `MurmurHash2` with their seed.
fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !rest.is_empty() {
        let bytes = rest.iter().zip([0, 8, 16]);
        hash ^= bytes.fold(0, |sum, (byte, shift)| sum | u32::from(*byte) << shift);
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_chosen_as_javas_clients_choose_it() {
        // From their own tests.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
