//! The configuration alone says which broker: the outbox's relay publishes to it, and a service consumes from it.

use std::sync::Arc;

use bytes::Bytes;
use jetway::database::{self, Pool};
use jetway::jetstream::{Link, client};
use jetway::mapping::{Mapping, Settings};
use jetway::outbox::publisher::Any;
use jetway::outbox::store::{Enqueue as _, Store, Wake};
use jetway::outbox::{Broker, Config, Metrics, Pass, Relay};
use serde_json::{Value, json};

use crate::place::{Recorder, Service, api, event};
use crate::shelf::row;
use crate::support::{Backend, NatsServer, Redis};

const EVENTS: u32 = 20;

/// Writes events into an outbox, and lets a relay make one pass to the broker that is configured.
pub(crate) async fn relay(nats: &str, publisher: Broker, url: &str) -> Pass {
    let folder = tempfile::tempdir().unwrap();
    let database = database::Config {
        url: format!("sqlite:{}", folder.path().join("outbox.db").display()),
        ..database::Config::default()
    };
    let store = Store::open(Pool::open(&database).await.unwrap())
        .await
        .unwrap();
    let events: Vec<_> = (1..=EVENTS).map(written).collect();
    let mut transaction = store.pool().begin().await.unwrap();
    transaction.enqueue(&events).await.unwrap();
    transaction.commit().await.unwrap();
    let config = Config {
        publisher,
        url: url.to_owned(),
        ..Config::default()
    };
    assert_eq!(config.validate(), [""; 0]);
    let nats = client::Config {
        url: nats.to_owned(),
        ..client::Config::default()
    };
    let link = Link::connect(&nats).await.unwrap();
    let mapping = Mapping::load(&Settings::default(), None).unwrap();
    let publisher = Any::open(&config, &link, &mapping).await.unwrap();
    let relay = Relay {
        store,
        publisher: Arc::new(publisher),
        config,
        metrics: Metrics::default(),
        wake: Wake::default(),
    };
    relay.pass().await.unwrap()
}

fn written(number: u32) -> jetway::outbox::store::Event {
    let mut written = row("d", number).event;
    let body = event(&written.event_id.to_string(), json!({"number": number}));
    written.payload = Bytes::from(body);
    written
}

pub(crate) fn all_published() -> Pass {
    Pass {
        claimed: EVENTS.into(),
        published: EVENTS.into(),
        ..Pass::default()
    }
}

/// The same service, wherever its events come from.
async fn consumes(url: &str) {
    let service = Service::start().await;
    let recorder = Recorder::new();
    let replica = service.replica(url, "GPS", "gps", &recorder).await;
    let numbers: Vec<_> = service.until_rows(EVENTS as usize).await;
    let expected: Vec<_> = (1..=EVENTS.into())
        .map(|number| ("d".to_owned(), number))
        .collect();
    assert_eq!(numbers, expected);
    replica.stop().await;
}

#[tokio::test]
async fn from_jetstream_to_this_process_to_redis() {
    let nats = NatsServer::start().await;
    let backend = Backend::connect(&nats.url()).await;
    let mapping = Mapping::load(&Settings::default(), None).unwrap();
    let stream = mapping
        .streams
        .iter()
        .find(|stream| stream.name == "GPS")
        .unwrap();
    let mut config = stream.config.clone();
    config["name"] = "GPS".into();
    api(&backend, "STREAM.CREATE.GPS", config).await;
    let durable = mapping
        .durables
        .iter()
        .find(|durable| durable.name == "gps")
        .unwrap();
    let create: Value = json!({"stream_name": "GPS", "config": durable.config});
    api(&backend, "CONSUMER.CREATE.GPS.gps", create).await;
    let redis = Redis::start().await;
    for (publisher, url, origin) in [
        (Broker::JetStream, "", &*nats.url()),
        (Broker::Memory, "", "memory:"),
        (Broker::Redis, &*redis.url(), &*redis.url()),
    ] {
        let pass = relay(&nats.url(), publisher, url).await;
        assert_eq!(pass, all_published(), "{publisher:?}");
        consumes(origin).await;
    }
}
