//! A broker that speaks Kafka, of one test's own: free port, gone when dropped.
//!
//! It is tansu, which keeps everything in memory: killed, it forgets. So outages of it are pauses.

use std::ops::Deref;

use rskafka::client::partition::UnknownTopicHandling;
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::RecordAndOffset;

use super::port::free_ports;
use super::server::{Program, Server};
use super::tools::kafka_broker;

/// A running broker; [`Server`] has what can be done to its process.
pub struct Kafka {
    server: Server,
    port: u16,
}

impl Kafka {
    /// Starts one with no topics.
    pub async fn start() -> Self {
        let kafka = Self::started();
        let ready = async || kafka.client().await.map(drop);
        kafka.server.listens(ready).await;
        kafka
    }

    fn started() -> Self {
        let [port] = free_ports();
        let address = format!("tcp://127.0.0.1:{port}");
        let command = [
            kafka_broker().into_os_string(),
            "broker".into(),
            "--storage-engine".into(),
            "memory://tansu/".into(),
            "--listener-url".into(),
            (&address).into(),
            "--advertised-listener-url".into(),
            (&address).into(),
        ];
        let program = Program {
            name: "tansu",
            stop: "KILL",
            command: command.into(),
            environment: Vec::new(),
        };
        Self {
            server: Server::start(tempfile::tempdir().unwrap(), program),
            port,
        }
    }

    /// `kafka://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.port)
    }

    /// Makes a topic.
    pub async fn topic(&self, name: &str, partitions: i32) {
        let client = self.client().await.unwrap();
        let controller = client.controller_client().unwrap();
        let created = controller.create_topic(name, partitions, 1, 5_000).await;
        created.unwrap();
    }

    /// All records of a topic, by partition.
    pub async fn records(&self, topic: &str) -> Vec<Vec<RecordAndOffset>> {
        let client = self.client().await.unwrap();
        let topics = client.list_topics().await.unwrap();
        let found = topics
            .into_iter()
            .find(|found| found.name == topic)
            .unwrap();
        let mut all = Vec::new();
        for partition in found.partitions {
            let unknown = UnknownTopicHandling::Retry;
            let client = client
                .partition_client(topic, partition, unknown)
                .await
                .unwrap();
            let mut records: Vec<RecordAndOffset> = Vec::new();
            loop {
                let from = records.last().map_or(0, |last| last.offset + 1);
                let (more, end) = client
                    .fetch_records(from, 0..10_000_000, 500)
                    .await
                    .unwrap();
                records.extend(more);
                if records.last().map_or(0, |last| last.offset + 1) >= end {
                    break;
                }
            }
            all.push(records);
        }
        all
    }

    async fn client(&self) -> Result<Client, String> {
        let connected = ClientBuilder::new(vec![format!("127.0.0.1:{}", self.port)]).build();
        let limited = tokio::time::timeout(std::time::Duration::from_secs(2), connected).await;
        let connected = limited.map_err(|_elapsed| "no answer".to_owned())?;
        connected.map_err(|error| error.to_string())
    }
}

impl Deref for Kafka {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
