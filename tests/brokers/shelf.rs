//! A broker as a publisher's test sees it: what is published to, what came of it, and how it is taken away for a while.

use std::time::Duration;

use bytes::Bytes;
use jetway::broker::{Broker, Durable, Layout, Stream, kafka, memory, rabbitmq, redis};
use jetway::delivery::{Answer, Next};
use jetway::jetstream::{Link, client};
use jetway::message::Headers;
use jetway::outbox::publisher::{JetStream, Publisher, Waves};
use jetway::outbox::store::Event;
use jetway::outbox::{Answer as Settled, Row};
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use serde_json::json;
use uuid::Uuid;

use crate::place::api;
use crate::support::{Backend, Kafka, NatsServer, RabbitMq, Redis, Server};

pub(crate) const STREAM: &str = "GPS";
/// For the waves of one publishing.
pub(crate) const LIMIT: Duration = Duration::from_secs(4);

/// One stream for `gps.>`, and a durable that nobody pulls from but the test.
pub(crate) fn layout() -> Layout {
    let stream = json!({"subjects": ["gps.>"], "duplicate_window": 120_000_000_000_u64});
    let all = json!({"filter_subjects": ["gps.>"], "ack_wait": 600_000_000_000_u64});
    Layout {
        streams: vec![Stream::read(STREAM, &stream)],
        durables: vec![Durable::read(STREAM, "all", &all)],
    }
}

/// A row of an aggregate, as its event number so many.
pub(crate) fn row(aggregate: &str, number: u32) -> Row {
    Row {
        id: i64::from(number),
        event: Event {
            event_id: Uuid::now_v7(),
            event_type: "gps.report.created".into(),
            event_version: "1.0".into(),
            aggregate_type: "device".into(),
            aggregate_id: format!("p/{aggregate}").into(),
            subject: format!("gps.report.created.p.{aggregate}").into(),
            payload: Bytes::from(number.to_string()),
            headers: Headers::default(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        },
        tried_ms: None,
    }
}

/// What was stored of a message: subject, header `Nats-Msg-Id`, payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) payload: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Kept {
    fn new(subject: &str, payload: &[u8], headers: Vec<(String, String)>) -> Self {
        let id = headers.iter().find(|(name, _)| name == "Nats-Msg-Id");
        Self {
            subject: subject.to_owned(),
            id: id.unwrap().1.clone(),
            payload: String::from_utf8(payload.to_vec()).unwrap(),
            headers,
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "a test has one of them")]
pub(crate) enum Shelf {
    JetStream(NatsServer, Link),
    Memory(memory::Broker),
    Redis(Redis),
    RabbitMq(RabbitMq),
    Kafka(Kafka),
}

impl Shelf {
    pub(crate) async fn jetstream() -> Self {
        let server = NatsServer::start().await;
        let backend = Backend::connect(&server.url()).await;
        let stream = json!({"name": STREAM, "subjects": ["gps.>"]});
        api(&backend, &format!("STREAM.CREATE.{STREAM}"), stream).await;
        let config = client::Config {
            url: server.url(),
            ..client::Config::default()
        };
        let link = Link::connect(&config).await.unwrap();
        Self::JetStream(server, link)
    }

    pub(crate) fn memory() -> Self {
        let broker = memory::Broker::default();
        broker.provision(&layout(), 1_000_000);
        Self::Memory(broker)
    }

    pub(crate) async fn redis() -> Self {
        Self::Redis(Redis::start().await)
    }

    pub(crate) async fn rabbitmq() -> Self {
        let server = RabbitMq::start().await;
        let (exchange, queue) = ("jetway", STREAM);
        let connection = connect(&server).await;
        let channel = connection.create_channel().await.unwrap();
        let (kind, none) = (ExchangeKind::Topic, FieldTable::default());
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        channel
            .exchange_declare(exchange.into(), kind, durable, none.clone())
            .await
            .unwrap();
        channel
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), none.clone())
            .await
            .unwrap();
        let bind = QueueBindOptions::default();
        channel
            .queue_bind(queue.into(), exchange.into(), "gps.#".into(), bind, none)
            .await
            .unwrap();
        server.write_tables().await;
        Self::RabbitMq(server)
    }

    pub(crate) async fn kafka() -> Self {
        let server = Kafka::start().await;
        server.topic(STREAM, 3).await;
        Self::Kafka(server)
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::JetStream(server, _) => server.url(),
            Self::Memory(_) => "memory:".to_owned(),
            Self::Redis(server) => server.url(),
            Self::RabbitMq(server) => server.url(),
            Self::Kafka(server) => server.url(),
        }
    }

    /// Its process.
    pub(crate) fn server(&self) -> &Server {
        match self {
            Self::Redis(server) => server,
            Self::RabbitMq(server) => server,
            Self::Kafka(server) => server,
            Self::JetStream(..) | Self::Memory(_) => panic!("another kind of process"),
        }
    }

    /// Whether a repeated message is stored once.
    pub(crate) fn knows_repeats(&self) -> bool {
        matches!(self, Self::JetStream(..) | Self::Memory(_) | Self::Redis(_))
    }

    /// Whether it can be away.
    pub(crate) fn is_a_server(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    /// A new publisher to it.
    pub(crate) fn publisher(&self) -> Publishing {
        match self {
            Self::JetStream(_, link) => Publishing::JetStream(JetStream::new(link, LIMIT)),
            Self::Memory(broker) => Publishing::Memory(waves(broker.clone())),
            Self::Redis(server) => {
                let broker = redis::Broker::new(&redis::Config::new(&server.url())).unwrap();
                Publishing::Redis(waves(redis::Storing::new(&broker, layout())))
            }
            Self::RabbitMq(server) => {
                let config = rabbitmq::Config::new(&server.url());
                Publishing::RabbitMq(waves(rabbitmq::Broker::new(config)))
            }
            Self::Kafka(server) => {
                let config = kafka::Config::new(&server.url());
                Publishing::Kafka(waves(kafka::Broker::new(config, layout())))
            }
        }
    }

    /// Takes the broker away: killed, or stopped where it would forget everything.
    pub(crate) async fn take_away(&mut self) {
        match self {
            Self::JetStream(server, _) => server.kill9().await,
            Self::Memory(_) => {}
            Self::Redis(server) => server.kill9().await,
            Self::RabbitMq(server) => server.kill9().await,
            Self::Kafka(server) => server.pause().await,
        }
    }

    pub(crate) async fn bring_back(&mut self) {
        match self {
            Self::JetStream(server, _) => server.restart().await,
            Self::Memory(_) => {}
            Self::Redis(server) => server.restart().await,
            Self::RabbitMq(server) => server.restart().await,
            Self::Kafka(server) => server.resume(),
        }
    }

    /// Everything that is stored; of one aggregate in its order.
    pub(crate) async fn kept(&self) -> Vec<Kept> {
        match self {
            Self::JetStream(server, _) => in_jetstream(server).await,
            Self::Memory(broker) => in_memory(broker).await,
            Self::Redis(server) => in_redis(server).await,
            Self::RabbitMq(server) => in_rabbitmq(server).await,
            Self::Kafka(server) => in_kafka(server).await,
        }
    }
}

/// A publisher to one of them.
#[allow(clippy::large_enum_variant, reason = "a test has one of them")]
pub(crate) enum Publishing {
    JetStream(JetStream),
    Memory(Waves<memory::Broker>),
    Redis(Waves<redis::Storing>),
    RabbitMq(Waves<rabbitmq::Broker>),
    Kafka(Waves<kafka::Broker>),
}

impl Publishing {
    pub(crate) async fn publish(&self, rows: &[Row]) -> Vec<Settled> {
        match self {
            Self::JetStream(publisher) => publisher.publish(rows).await,
            Self::Memory(waves) => waves.publish(rows).await,
            Self::Redis(waves) => waves.publish(rows).await,
            Self::RabbitMq(waves) => waves.publish(rows).await,
            Self::Kafka(waves) => waves.publish(rows).await,
        }
    }
}

fn waves<B: Broker>(broker: B) -> Waves<B> {
    Waves::new(broker, LIMIT)
}

async fn connect(server: &RabbitMq) -> Connection {
    let properties = ConnectionProperties::default();
    Connection::connect(&server.url(), properties)
        .await
        .unwrap()
}

async fn in_jetstream(server: &NatsServer) -> Vec<Kept> {
    let backend = Backend::connect(&server.url()).await;
    let stored = backend.messages(STREAM, ">").await;
    let kept = stored.into_iter().map(|stored| {
        let headers = stored.headers.iter().flat_map(|(name, values)| {
            values
                .iter()
                .map(|value| (name.to_string(), value.to_string()))
        });
        Kept::new(&stored.subject, &stored.payload, headers.collect())
    });
    kept.collect()
}

/// By a puller that gives everything back.
async fn in_memory(broker: &memory::Broker) -> Vec<Kept> {
    let (mut puller, _) = broker.bind(STREAM, "all").unwrap();
    let mut kept = Vec::new();
    let mut replies = Vec::new();
    puller.pull(usize::MAX);
    while let Ok(Next::Message(delivered)) =
        tokio::time::timeout(Duration::from_millis(100), puller.next()).await
    {
        let message = delivered.message;
        let headers = message.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        kept.push(Kept::new(
            &message.subject,
            &message.payload,
            headers.collect(),
        ));
        replies.push(delivered.reply);
    }
    for reply in replies {
        puller.answer(&reply, Answer::Nak);
    }
    kept
}

async fn in_redis(server: &Redis) -> Vec<Kept> {
    type Entry = (String, Vec<(String, String)>);
    let client = ::redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut range = ::redis::cmd("XRANGE");
    range.arg(format!("jetway:{{{STREAM}}}")).arg("-").arg("+");
    let entries: Vec<Entry> = range.query_async(&mut connection).await.unwrap();
    let kept = entries.into_iter().map(|(_, fields)| {
        let field = |name: &str| &fields.iter().find(|(key, _)| key == name).unwrap().1;
        let headers = fields
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("h:")?.to_owned(), value.clone())));
        let payload = field("payload").as_bytes();
        Kept::new(field("subject"), payload, headers.collect())
    });
    kept.collect()
}

/// Takes them, and puts nothing back: its connection ends without an acknowledgement.
async fn in_rabbitmq(server: &RabbitMq) -> Vec<Kept> {
    let connection = connect(server).await;
    let channel = connection.create_channel().await.unwrap();
    let mut kept = Vec::new();
    let get = BasicGetOptions::default();
    while let Some(got) = channel.basic_get(STREAM.into(), get).await.unwrap() {
        assert_eq!(got.properties.delivery_mode(), &Some(2));
        let headers = got
            .properties
            .headers()
            .iter()
            .flat_map(|table| table.inner());
        let headers = headers.map(|(name, value)| match value {
            AMQPValue::LongString(value) => (name.to_string(), value.to_string()),
            other => panic!("{other:?}"),
        });
        let kept_one = Kept::new(got.routing_key.as_str(), &got.data, headers.collect());
        let id = got.properties.message_id().as_ref().unwrap();
        assert_eq!(id.as_str(), kept_one.id);
        kept.push(kept_one);
    }
    connection.close(200, "done".into()).await.unwrap();
    kept
}

async fn in_kafka(server: &Kafka) -> Vec<Kept> {
    let partitions = server.records(STREAM).await;
    let records = partitions.into_iter().flatten().map(|found| {
        let record = found.record;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let key = text(record.key.unwrap());
        let headers = record.headers.into_iter();
        let headers = headers.map(|(name, value)| (name, text(value)));
        let subject = format!("gps.report.created.{}", key.replace('/', "."));
        Kept::new(&subject, &record.value.unwrap(), headers.collect())
    });
    records.collect()
}
