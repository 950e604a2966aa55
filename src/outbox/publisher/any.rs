//! The broker that the configuration names.

use super::{JetStream, Publisher, Waves};
use crate::broker::{self, Layout, kafka, memory, rabbitmq, redis};
use crate::jetstream::Link;
use crate::mapping::Mapping;
use crate::outbox::config::{Broker, Config};
use crate::outbox::store::{Answer, Row};

/// How many messages a stream in memory holds.
const MEMORY_MESSAGES_MAX: usize = 100_000;

/// Any of the brokers.
pub enum Any {
    /// JetStream.
    JetStream(Box<JetStream>),
    /// The broker of this process.
    Memory(Waves<memory::Broker>),
    /// Redis Streams.
    Redis(Box<Waves<redis::Storing>>),
    /// RabbitMQ.
    RabbitMq(Waves<rabbitmq::Broker>),
    /// Kafka.
    Kafka(Waves<kafka::Broker>),
}

/// Why a broker cannot be used at all; one that is away is no such reason.
#[derive(Debug, thiserror::Error)]
#[error("outbox.publisher: {0}")]
pub struct Error(pub String);

impl Any {
    /// The one that `config` names; `link` is what JetStream is reached over, `mapping` says which streams and durables the others
    /// have. The broker need not be there yet.
    ///
    /// # Errors
    /// [`Error`] when its settings cannot be used.
    pub async fn open(config: &Config, link: &Link, mapping: &Mapping) -> Result<Self, Error> {
        let (url, limit, layout) = (&*config.url, config.publish_max(), layout(mapping));
        Ok(match config.publisher {
            Broker::JetStream => Self::JetStream(Box::new(JetStream::new(link, limit))),
            Broker::Memory => {
                let broker = memory::Broker::of_process();
                broker.provision(&layout, MEMORY_MESSAGES_MAX);
                Self::Memory(Waves::new(broker, limit))
            }
            Broker::Redis => {
                let broker = redis::Broker::new(&redis::Config::new(url));
                let broker = broker.map_err(|error| Error(format!("url: {error}")))?;
                let storing = redis::Storing::new(&broker, layout);
                Self::Redis(Box::new(Waves::new(storing, limit)))
            }
            Broker::RabbitMq => {
                let broker = rabbitmq::Broker::new(rabbitmq::Config::new(url));
                Self::RabbitMq(Waves::new(broker, limit))
            }
            Broker::Kafka => {
                let broker = kafka::Broker::new(kafka::Config::new(url), layout);
                Self::Kafka(Waves::new(broker, limit))
            }
        })
    }
}

/// The streams and durables of a mapping, for brokers other than JetStream.
#[must_use]
pub fn layout(mapping: &Mapping) -> Layout {
    let streams = mapping.streams.iter();
    let durables = mapping.durables.iter();
    Layout {
        streams: streams
            .map(|stream| broker::Stream::read(&stream.name, &stream.config))
            .collect(),
        durables: durables
            .map(|durable| broker::Durable::read(&durable.stream, &durable.name, &durable.config))
            .collect(),
    }
}

impl Publisher for Any {
    async fn publish(&self, rows: &[Row]) -> Vec<Answer> {
        match self {
            Self::JetStream(publisher) => publisher.publish(rows).await,
            Self::Memory(publisher) => publisher.publish(rows).await,
            Self::Redis(publisher) => publisher.publish(rows).await,
            Self::RabbitMq(publisher) => publisher.publish(rows).await,
            Self::Kafka(publisher) => publisher.publish(rows).await,
        }
    }

    async fn reachable(&self) {
        match self {
            Self::JetStream(publisher) => publisher.reachable().await,
            // They tell when they are asked to take something.
            Self::Memory(_) | Self::Redis(_) | Self::RabbitMq(_) | Self::Kafka(_) => {}
        }
    }
}
