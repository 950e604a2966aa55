//! RabbitMQ: one topic exchange, the subject as the routing key, publisher confirms.
//!
//! Messages are persistent and mandatory: one that no queue is bound for comes back and is refused, as nobody would ever get it. RabbitMQ knows no
//! repeated message: `message_id` is the event's id, and consumers have to know it. A negative confirm says that a queue takes
//! nothing now, and is nobody's fault. What is wrong with a message itself closes the channel, with all that are on their way: then each
//! is sent once more alone, to find which it was.
//!
//! Only publishing is here; services consume with any client.

use std::sync::{Arc, Mutex, PoisonError};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind,
    ExchangeKind,
};
use tokio::time::{Instant, timeout_at};

use super::{Fault, Posting, STORE_MAX, all};

const PERSISTENT: u8 = 2;

/// Where RabbitMQ is, and how it is used.
#[derive(Debug, Clone)]
pub struct Config {
    /// `amqp://user:password@host:port/vhost`, or `amqps://` for TLS.
    pub url: String,
    /// The exchange; it is made if it is not there.
    pub exchange: Box<str>,
}

impl Config {
    /// RabbitMQ at this address, with the exchange `jetway`.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            exchange: "jetway".into(),
        }
    }
}

/// A RabbitMQ server, with one connection, which is made when it is needed, and anew when it is lost.
pub struct Broker {
    config: Config,
    open: Mutex<Option<Arc<Open>>>,
}

struct Open {
    channel: Channel,
    /// It is closed when it is dropped.
    _connection: Connection,
}

/// What became of messages that were sent together.
enum Sent {
    Each(Vec<Result<(), Fault>>),
    /// One of them, or several, for this reason; and nothing is known about the others.
    RefusedAny(String),
}

impl Broker {
    /// RabbitMQ as configured. It need not be there yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            open: Mutex::default(),
        }
    }

    async fn channel(&self) -> lapin::Result<Arc<Open>> {
        let open = self.current().clone();
        if let Some(open) = open.filter(|open| open.channel.status().connected()) {
            return Ok(open);
        }
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.config.url, properties).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let (exchange, none) = (
            ShortString::from(&*self.config.exchange),
            FieldTable::default(),
        );
        channel
            .exchange_declare(exchange, ExchangeKind::Topic, durable, none)
            .await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        let open = Arc::new(Open {
            channel,
            _connection: connection,
        });
        *self.current() = Some(Arc::clone(&open));
        Ok(open)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, postings: &[Posting], deadline: Instant) -> Sent {
        match timeout_at(deadline, self.send_all(postings)).await {
            Ok(sent) => sent,
            Err(_elapsed) => {
                *self.current() = None;
                let late = format!("no answer within {STORE_MAX:?}");
                Sent::Each(all(postings, &Fault::Unanswered(late)))
            }
        }
    }

    async fn send_all(&self, postings: &[Posting]) -> Sent {
        let open = match self.channel().await {
            Ok(open) => open,
            Err(error) => return Sent::Each(all(postings, &Fault::Away(error.to_string()))),
        };
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let mut confirms = Vec::with_capacity(postings.len());
        for posting in postings {
            confirms.push(match admitted(posting) {
                Err(refused) => Err(refused),
                Ok((routing_key, properties)) => {
                    let exchange = ShortString::from(&*self.config.exchange);
                    let payload = &posting.message.payload;
                    let published = open.channel.basic_publish(
                        exchange,
                        routing_key,
                        mandatory,
                        payload,
                        properties,
                    );
                    Ok(published.await)
                }
            });
        }
        let mut stored = Vec::with_capacity(postings.len());
        for confirm in confirms {
            let confirmed = match confirm {
                Ok(Ok(confirm)) => confirm.await,
                Ok(Err(error)) => Err(error),
                Err(refused) => {
                    stored.push(Err(refused));
                    continue;
                }
            };
            match confirmed {
                Ok(Confirmation::Ack(None)) => stored.push(Ok(())),
                Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
                    let reason = format!("{} {}", returned.reply_code, returned.reply_text);
                    stored.push(Err(Fault::Refused(reason)));
                }
                Ok(Confirmation::Nack(None) | Confirmation::NotRequested) => {
                    stored.push(Err(Fault::Away("a queue takes nothing".to_owned())));
                }
                Err(error) if is_about_a_message(error.kind()) => {
                    return Sent::RefusedAny(error.to_string());
                }
                Err(error) => stored.push(Err(Fault::Unanswered(error.to_string()))),
            }
        }
        Sent::Each(stored)
    }
}

/// A message as the protocol takes it: routing key and properties.
fn admitted(posting: &Posting) -> Result<(ShortString, BasicProperties), Fault> {
    let short = |text: &str| {
        ShortString::try_new(text).map_err(|error| Fault::Refused(format!("{text}: {error}")))
    };
    let routing_key = short(&posting.message.subject)?;
    let mut headers = FieldTable::default();
    for (name, value) in posting.message.headers.iter() {
        headers.insert(short(name)?, AMQPValue::LongString(LongString::from(value)));
    }
    let properties = BasicProperties::default()
        .with_message_id(posting.id.to_string().into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers);
    let properties = match posting.message.headers.get("Content-Type") {
        Some(form) => properties.with_content_type(short(form)?),
        None => properties,
    };
    Ok((routing_key, properties))
}

/// Errors that close the channel because of a message; that there is no exchange is not one of them.
fn is_about_a_message(error: &ErrorKind) -> bool {
    let ErrorKind::ProtocolError(error) = error else {
        return false;
    };
    matches!(
        error.kind(),
        AMQPErrorKind::Soft(
            AMQPSoftError::CONTENTTOOLARGE
                | AMQPSoftError::PRECONDITIONFAILED
                | AMQPSoftError::ACCESSREFUSED
        )
    )
}

impl super::Broker for Broker {
    async fn store(&self, postings: &[Posting]) -> Vec<Result<(), Fault>> {
        let deadline = Instant::now() + STORE_MAX;
        let reason = match self.send(postings, deadline).await {
            Sent::Each(stored) => return stored,
            Sent::RefusedAny(reason) => reason,
        };
        if postings.len() == 1 {
            return vec![Err(Fault::Refused(reason))];
        }
        let mut stored = Vec::with_capacity(postings.len());
        for posting in postings {
            match self.send(std::slice::from_ref(posting), deadline).await {
                Sent::Each(alone) => stored.extend(alone),
                Sent::RefusedAny(reason) => stored.push(Err(Fault::Refused(reason))),
            }
        }
        stored
    }
}
