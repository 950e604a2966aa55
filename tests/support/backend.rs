//! A backend service: it speaks NATS and JetStream and knows no MQTT.

use std::fmt::Display;
use std::time::Instant;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind, LastRawMessageErrorKind};
use async_nats::jetstream::{self, Context, ErrorCode, stream};
use async_nats::{Client, HeaderMap, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::wait::{DEADLINE, eventually, within};

/// Connected to one nats-server; reconnects when the server comes back.
pub struct Backend {
    /// For what the helpers below do not do.
    pub client: Client,
    /// For what the helpers below do not do.
    pub jetstream: Context,
}

/// A message as it lies in a stream.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its bytes.
    pub payload: Bytes,
}

impl Stored {
    /// The value of a header; empty when the message has none of that name.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.as_str())
    }

    /// The payload as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).unwrap()
    }
}

impl Backend {
    /// Connects.
    pub async fn connect(url: &str) -> Self {
        let client = within("a NATS connection", async_nats::connect(url))
            .await
            .unwrap();
        let jetstream = jetstream::new(client.clone());
        Self { client, jetstream }
    }

    /// Subscribes to live messages; from when this returns on, none is missed.
    pub async fn subscribe(&self, subject: &str) -> Subscriber {
        let subscriber = self.client.subscribe(subject.to_owned()).await.unwrap();
        // Nobody listens there, which the server says once it has read the subscription; the client's flush waits for the socket alone.
        let nobody = self.client.request(self.client.new_inbox(), "".into());
        let error = within("an answer", nobody).await.unwrap_err();
        assert_eq!(error.kind(), RequestErrorKind::NoResponders);
        subscriber
    }

    /// The next message of a subscription.
    pub async fn next(&self, subscriber: &mut Subscriber) -> async_nats::Message {
        let next = within("a NATS message", subscriber.next()).await;
        next.expect("the subscription is open")
    }

    /// Publishes into whatever stream holds the subject, and returns the message's sequence there once it is stored.
    pub async fn publish(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: impl Into<Bytes>,
    ) -> u64 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        let publish = self
            .jetstream
            .publish_with_headers(subject.to_owned(), map, payload.into());
        let ack = within("room to publish", publish).await.unwrap();
        let stored = within("a PubAck", ack.into_future()).await;
        stored
            .unwrap_or_else(|error| panic!("publish to {subject}: {error}"))
            .sequence
    }

    /// Sends a request and returns the reply.
    pub async fn request(&self, subject: &str, payload: impl Into<Bytes>) -> async_nats::Message {
        let request = self.client.request(subject.to_owned(), payload.into());
        within("a reply", request).await.unwrap()
    }

    /// A stream by name.
    pub async fn stream(&self, name: &str) -> stream::Stream {
        answered(&format!("the info of stream {name}"), async || {
            self.jetstream.get_stream(name).await
        })
        .await
    }

    /// How many messages the stream holds.
    pub async fn count(&self, stream: &str) -> u64 {
        self.stream(stream).await.cached_info().state.messages
    }

    /// All messages of a stream that match the subject filter (`>` for all), in order.
    pub async fn messages(&self, stream: &str, filter: &str) -> Vec<Stored> {
        let config = pull::Config {
            ack_policy: AckPolicy::None,
            filter_subject: filter.to_owned(),
            memory_storage: true,
            ..pull::Config::default()
        };
        let stream = self.stream(stream).await;
        let mut consumer = answered("a new consumer", async || {
            stream.create_consumer(config.clone()).await
        })
        .await;
        let created = Instant::now();
        let count = usize::try_from(consumer.cached_info().num_pending).unwrap();
        let mut messages = Vec::with_capacity(count);
        while messages.len() < count {
            // Some of those that were there may be gone by now.
            let pending = answered("a consumer's info", async || {
                consumer.info().await.map(|info| info.num_pending)
            })
            .await;
            if pending == 0 {
                break;
            }
            let batch = (count - messages.len()).min(1000);
            let mut fetched = consumer
                .fetch()
                .max_messages(batch)
                .messages()
                .await
                .unwrap();
            while let Some(message) = within("a stored message", fetched.next()).await {
                let message = match message {
                    Ok(message) => message,
                    // In a cluster it takes a moment until all servers know of a new consumer.
                    Err(error) if created.elapsed() > DEADLINE => panic!("{error}"),
                    Err(_not_yet) => break,
                };
                messages.push(Stored {
                    sequence: message.info().unwrap().stream_sequence,
                    subject: message.subject.to_string(),
                    headers: message.headers.clone().unwrap_or_default(),
                    payload: message.payload.clone(),
                });
            }
        }
        // It would stay for seconds, and a stream takes a limited number.
        let name = &consumer.cached_info().name;
        answered("a consumer's end", async || {
            match stream.delete_consumer(name).await.map(drop) {
                // It was ended by a request whose answer was lost, or with its server.
                Err(error) if is_not_found(&error) => Ok(()),
                ended => ended,
            }
        })
        .await;
        messages
    }

    /// The last message of a subject, also of one that is written meanwhile: its bytes.
    pub async fn last(&self, stream: &str, subject: &str) -> Option<Bytes> {
        let stream = self.stream(stream).await;
        answered("the last message", async || {
            match stream.get_last_raw_message_by_subject(subject).await {
                Ok(message) => Ok(Some(message.payload)),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Waits until at least `count` messages match, and returns all that do.
    pub async fn wait_for(&self, stream: &str, filter: &str, count: usize) -> Vec<Stored> {
        eventually(
            &format!("{stream} holds {count} messages on {filter}"),
            async || {
                let messages = self.messages(stream, filter).await;
                match messages.len() >= count {
                    true => Ok(messages),
                    false => Err(format!("{} messages", messages.len())),
                }
            },
        )
        .await
    }
}

/// JetStream's answer to an API request. In a cluster that has just lost a server, requests stay without one for as long as
/// a leader is being elected: such a request is made again.
async fn answered<T, E: Display>(what: &str, mut request: impl AsyncFnMut() -> Result<T, E>) -> T {
    eventually(&format!("{what} comes"), async || {
        Box::pin(request()).await.map_err(|error| error.to_string())
    })
    .await
}

fn is_not_found(error: &ConsumerError) -> bool {
    match error.kind() {
        ConsumerErrorKind::JetStream(said) => said.error_code() == ErrorCode::CONSUMER_NOT_FOUND,
        _ => false,
    }
}
