//! Where a durable is: JetStream, Redis Streams or this process; and one puller of it, the same for the loop whatever it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::broker::{memory, redis};
use crate::delivery::{Answer, Next, Redelivery};
use crate::jetstream::{self, Link, client, consumer};
use crate::message::Subject;

/// How long the last answers may take to leave.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// A broker that services consume from. What is about handlers and inbox is the same with each.
#[derive(Clone)]
pub enum Origin {
    /// JetStream.
    Jetstream(Link),
    /// This process.
    Memory(memory::Broker),
    /// Redis Streams.
    Redis(Box<redis::Broker>),
}

/// Why there is no broker, or no durable.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The address is none.
    #[error("broker {0}: expected nats://, tls://, redis://, rediss:// or memory:")]
    Url(String),
    /// JetStream does not answer, or refuses.
    #[error("{0}")]
    Jetstream(#[from] jetstream::Error),
    /// Redis does not answer, or refuses.
    #[error("redis: {0}")]
    Redis(#[from] ::redis::RedisError),
    /// There is no such durable.
    #[error("stream {stream}, durable {durable}: not there")]
    Missing {
        /// The stream.
        stream: Box<str>,
        /// The durable.
        durable: Box<str>,
    },
}

impl Origin {
    /// The broker at an address: `nats://…` or `tls://…` is JetStream, `redis://…` or `rediss://…` Redis with the default keys, `memory:`
    /// the broker of this process. Whoever wants more of it makes it themselves.
    ///
    /// # Errors
    /// [`OriginError::Url`] for another address; and JetStream has to be there, or to come.
    pub async fn connect(url: &str) -> Result<Self, OriginError> {
        match url.split(':').next() {
            Some("nats" | "tls") => {
                let config = client::Config {
                    url: url.to_owned(),
                    ..client::Config::default()
                };
                Ok(Self::Jetstream(Link::connect(&config).await?))
            }
            Some("redis" | "rediss") => {
                let broker = redis::Broker::new(&redis::Config::new(url))?;
                Ok(Self::Redis(Box::new(broker)))
            }
            Some("memory") => Ok(Self::Memory(memory::Broker::of_process())),
            _ => Err(OriginError::Url(url.to_owned())),
        }
    }

    /// A puller of a durable that is provisioned, and how it redelivers.
    pub(super) async fn bind(
        &self,
        stream: &Arc<str>,
        durable: &str,
    ) -> Result<(Source, Redelivery), OriginError> {
        let bound = match self {
            Self::Jetstream(link) => {
                let (consumer, redelivery) =
                    consumer::Consumer::bind(link, stream, durable).await?;
                return Ok((
                    Source::Jetstream(Box::new(consumer), link.clone()),
                    redelivery,
                ));
            }
            Self::Memory(broker) => broker
                .bind(stream, durable)
                .map(|(puller, redelivery)| (Source::Memory(puller), redelivery)),
            Self::Redis(broker) => broker
                .bind(stream, durable)
                .await?
                .map(|(puller, redelivery)| (Source::Redis(puller), redelivery)),
        };
        bound.ok_or_else(|| OriginError::Missing {
            stream: (&**stream).into(),
            durable: durable.into(),
        })
    }
}

impl From<&Link> for Origin {
    fn from(link: &Link) -> Self {
        Self::Jetstream(link.clone())
    }
}

impl From<&memory::Broker> for Origin {
    fn from(broker: &memory::Broker) -> Self {
        Self::Memory(broker.clone())
    }
}

impl From<&redis::Broker> for Origin {
    fn from(broker: &redis::Broker) -> Self {
        Self::Redis(Box::new(broker.clone()))
    }
}

/// A durable as one replica sees it.
pub(super) enum Source {
    Jetstream(Box<consumer::Consumer>, Link),
    Memory(memory::Puller),
    Redis(redis::Puller),
}

impl Source {
    /// Whether messages may still come by the last [`pull`](Self::pull).
    pub(super) fn is_pulling(&self) -> bool {
        match self {
            Self::Jetstream(consumer, _) => consumer.is_pulling(),
            Self::Memory(puller) => puller.is_pulling(),
            Self::Redis(puller) => puller.is_pulling(),
        }
    }

    /// Whether what is said now is heard.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Jetstream(_, link) => link.is_connected(),
            Self::Memory(_) => true,
            Self::Redis(puller) => puller.is_connected(),
        }
    }

    /// Asks for at most so many messages.
    pub(super) async fn pull(&mut self, messages: usize) {
        match self {
            Self::Jetstream(consumer, _) => consumer.pull(messages).await,
            Self::Memory(puller) => puller.pull(messages),
            Self::Redis(puller) => puller.pull(messages),
        }
    }

    /// Waits for what comes next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Next {
        match self {
            Self::Jetstream(consumer, _) => consumer.next().await,
            Self::Memory(puller) => puller.next().await,
            Self::Redis(puller) => puller.next().await,
        }
    }

    /// Answers a message. What is not heard is as a lost answer: its message comes again.
    pub(super) async fn answer(&self, reply: Subject, answer: Answer) {
        match self {
            Self::Jetstream(consumer, _) => consumer.answer(reply, answer).await,
            Self::Memory(puller) => puller.answer(&reply, answer),
            Self::Redis(puller) => puller.answer(&reply, answer).await,
        }
    }

    /// Waits until the last answers have left; whether they did.
    #[expect(clippy::disallowed_methods, reason = "what is not heard comes again")]
    pub(super) async fn flush(&self) -> bool {
        match self {
            Self::Jetstream(_, link) => {
                matches!(timeout(FLUSH_MAX, link.client.flush()).await, Ok(Ok(())))
            }
            // Each of their answers is waited for.
            Self::Memory(_) | Self::Redis(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_says_which_broker_it_is() {
        let memory = Origin::connect("memory:").await.unwrap();
        assert!(matches!(memory, Origin::Memory(_)));
        let redis = Origin::connect("redis://127.0.0.1:1/").await.unwrap();
        assert!(matches!(redis, Origin::Redis(_)));
        for url in ["", "kafka://a", "redis"] {
            let error = Origin::connect(url).await.err().unwrap().to_string();
            assert!(
                error.contains("expected nats://") || url == "redis",
                "{error}"
            );
        }
    }
}
