//! Two products with accounts of their own: each team has what is its product's, and nothing of the other's, of the streams or of the
//! gateway.

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{self, Message};
use async_nats::{Client, RequestErrorKind, Subscriber};
use futures_util::StreamExt as _;
use tempfile::TempDir;

use crate::exercise::{ask, command};
use crate::permissions::{CONFIG, PRODUCTS, apply, client, denied, nats, options};
use crate::site::SECRET;
use crate::support::{
    Credentials, DEADLINE, Device, Gateway, Protocol, Server, eventually, jetway, within,
};

/// As the comment in `product-accounts.conf` has it.
const RULES: &str = r#"
[[durable]]
name = "P"
stream = "DEVICE_UP"
filters = ["device.up.mqtt.*.P.*"]

[[durable]]
name = "Q"
stream = "DEVICE_UP"
filters = ["device.up.mqtt.*.Q.*"]
"#;

const POSITION: &str = r#"{"latitude":48.1,"longitude":11.5}"#;

struct Fleet {
    gateway: Gateway,
    server: Server,
    port: u16,
    _state: TempDir,
}

async fn start(config: &str) -> Fleet {
    let (server, port) = nats(config).await;
    let state = tempfile::tempdir().unwrap();
    let rules = state.path().join("rules.toml");
    std::fs::write(&rules, RULES).unwrap();
    let rules = rules.display().to_string();
    apply(port, &[("JETWAY_RULES_FILE", &rules)]).await;
    let mut options = options(port, &state);
    let database = [("JETWAY_DATABASE_URL", &*options.database_url)];
    let add = ["device", "add", "Q", "d0", "--secret", SECRET];
    jetway(&add, &database);
    options.environment = vec![("JETWAY_RULES_FILE".to_owned(), rules)];
    Fleet {
        gateway: Gateway::run(options).await,
        server,
        port,
        _state: state,
    }
}

/// The configuration with these accounts in the place of the file that it would include.
fn with(products: &str) -> String {
    let config = CONFIG.replacen("# include \"product-accounts.conf\"", products, 1);
    assert_ne!(config, CONFIG);
    config
}

/// A service of a product's team, and the product's device.
struct Team {
    product: &'static str,
    client: Client,
    /// The fleet's.
    jetstream: jetstream::Context,
    device: Device,
}

impl Team {
    async fn start(fleet: &Fleet, product: &'static str) -> Self {
        let client = client(product, fleet.port).await;
        let who = Credentials::new(product, "d0", SECRET);
        let mut device = Device::connect(Protocol::V5, fleet.gateway.mqtt(), &who).await;
        for filter in ["$thing/down/property", "$rpc/down/+"] {
            let filter = format!("{filter}/{product}/d0");
            assert_eq!(device.subscribe(&filter).await, 1);
        }
        Self {
            product,
            jetstream: jetstream::with_domain(client.clone(), "jetway"),
            client,
            device,
        }
    }

    async fn sees(&self) -> Subscriber {
        let mut all = self.client.subscribe(">").await.unwrap();
        self.client.publish("first", "".into()).await.unwrap();
        // Whatever comes says that the server has the subscription; the client's flush waits for the socket alone.
        within("what was sent", all.next()).await.unwrap();
        all
    }

    async fn report(&mut self) {
        let product = self.product;
        let topic = format!("$thing/up/property/{product}/d0");
        let report = format!(r#"{{"method":"report","msgToken":"{product}","params":{POSITION}}}"#);
        assert_eq!(self.device.publish_acked(&topic, report).await, 0);
    }

    async fn durable(&self) -> PullConsumer {
        let durable = self
            .jetstream
            .get_consumer_from_stream(self.product, "DEVICE_UP");
        durable.await.unwrap()
    }

    /// So many reports out of the durable, which has them some moments after they are stored.
    async fn pull(&self, count: usize) -> Vec<Message> {
        let durable = self.durable().await;
        let pulled = durable
            .batch()
            .max_messages(count)
            .expires(DEADLINE)
            .messages()
            .await
            .unwrap();
        within("reports", pulled.map(Result::unwrap).collect()).await
    }

    /// Sends commands in both forms; the device gets them, and the team hears of it.
    async fn commands(&mut self) {
        let product = self.product;
        let receipt = format!("receipt.{product}.d0");
        let mut receipts = self.client.subscribe(receipt.clone()).await.unwrap();
        for subject in ["device.down.mqtt.thing", "device.down.thing"] {
            let subject = format!("{subject}.{product}.d0");
            let mut headers = async_nats::HeaderMap::new();
            for (name, value) in [("Jw-Type", "property"), ("Jw-Receipt", &receipt)] {
                headers.insert(name, value);
            }
            let payload = format!("for {product}").into();
            let stored = self
                .jetstream
                .publish_with_headers(subject, headers, payload);
            let stored = within("its PubAck", stored.await.unwrap().into_future()).await;
            assert_eq!(stored.unwrap().stream, "DEVICE_DOWN");
            assert_eq!(self.device.next().await.payload, format!("for {product}"));
            within("a receipt", receipts.next()).await.unwrap();
        }
    }

    /// What it may not: nobody is there for it.
    async fn tries(&self, subject: &str) {
        let answered = self.client.request(subject.to_owned(), "+ACK".into()).await;
        let kind = answered
            .map(|message| message.payload)
            .map_err(|error| error.kind());
        let refused = match &kind {
            // The server's own answer to accounts without JetStream.
            Ok(answer) => String::from_utf8_lossy(answer).contains("JetStream not enabled"),
            Err(kind) => *kind == RequestErrorKind::NoResponders,
        };
        assert!(refused, "{subject}: {kind:?}");
    }
}

#[tokio::test]
async fn each_team_has_its_product() {
    let config = CONFIG.replacen("# include ", "include ", 1);
    assert_ne!(config, CONFIG);
    let fleet = start(&config).await;
    let mut teams = [
        Team::start(&fleet, "P").await,
        Team::start(&fleet, "Q").await,
    ];
    let mut seen = Vec::new();
    for team in &mut teams {
        seen.push(team.sees().await);
        team.report().await;
        team.report().await;
    }
    for team in &mut teams {
        let product = team.product;
        for message in team.pull(2).await {
            assert_eq!(
                *message.subject,
                format!("device.up.mqtt.thing.{product}.d0")
            );
            message.double_ack().await.unwrap();
        }
        let mut durable = team.durable().await;
        let info = durable.info().await.unwrap();
        assert_eq!((info.num_pending, info.num_ack_pending), (0, 0));
        team.commands().await;
        ask(&team.client, &mut team.device, &format!("{product}/d0")).await;
    }
    for (team, mut seen) in teams.iter().zip(seen) {
        let product = team.product;
        let other = if product == "P" { ".Q." } else { ".P." };
        let mut wanted = vec![
            format!("device.up.thing.{product}.d0"),
            format!("application.device.{product}.d0.report.thing.property"),
            format!("gps.report.created.{product}.d0"),
            format!("receipt.{product}.d0"),
        ];
        while !wanted.is_empty() {
            let message = within(&format!("{wanted:?}"), seen.next()).await.unwrap();
            assert!(!message.subject.contains(other), "{}", message.subject);
            let text = String::from_utf8_lossy(&message.payload);
            assert!(!text.contains(&format!("\"{}\"", &other[1..2])), "{text}");
            wanted.retain(|wanted| *wanted != *message.subject);
        }
    }
    assert_eq!(denied(&fleet.server), Vec::<String>::new());
}

#[tokio::test]
async fn a_team_can_do_nothing_to_another_product() {
    // That the other one has streams of its own is no difference.
    let own = PRODUCTS.replacen("\nQ {", "\nQ { jetstream: enabled", 1);
    let fleet = start(&with(&own)).await;
    let mut teams = [
        Team::start(&fleet, "P").await,
        Team::start(&fleet, "Q").await,
    ];
    for team in &mut teams {
        team.report().await;
    }
    let [team, other] = &mut teams;
    let held = other.pull(1).await.remove(0);
    let acknowledge = held.reply.clone().unwrap();
    for subject in [
        "device.down.mqtt.thing.Q.d0",
        "device.down.thing.Q.d0",
        "device.rpc.mqtt.rpc.Q.d0",
        "device.up.mqtt.thing.Q.d0",
        "device.up.mqtt.thing.P.d0",
        "$JS.jetway.API.CONSUMER.INFO.DEVICE_UP.Q",
        "$JS.jetway.API.CONSUMER.MSG.NEXT.DEVICE_UP.Q",
        "$JS.jetway.API.CONSUMER.DELETE.DEVICE_UP.P",
        "$JS.jetway.API.STREAM.INFO.DEVICE_UP",
        "$JS.jetway.API.STREAM.PURGE.DEVICE_DOWN",
        "$JS.API.STREAM.INFO.DEVICE_UP",
        "$JS.API.STREAM.LIST",
        "$KV.jetway_sessions.Q.d0",
        &acknowledge,
    ] {
        team.tries(subject).await;
    }
    // Others who would do it on the team's behalf: JetStream, which answers a pull, and the gateway, which answers a request or tells
    // what became of a command.
    let pull = "$JS.jetway.API.CONSUMER.MSG.NEXT.DEVICE_UP.P";
    let pull = (team.client).publish_with_reply(pull, acknowledge, "1".into());
    pull.await.unwrap();
    eventually("the reply is denied", async || {
        let denied = denied(&fleet.server);
        match denied.iter().any(|line| line.contains("Violation - Reply")) {
            true => Ok(()),
            false => Err(format!("{denied:?}")),
        }
    })
    .await;
    let receipt = [("Jw-Receipt", "device.down.mqtt.thing.Q.d0")];
    command(&team.client, "device.down.mqtt.thing.P.d0", &receipt).await;
    let question = team.client.publish_with_reply(
        "device.rpc.mqtt.rpc.P.d0",
        "device.down.mqtt.thing.Q.d0",
        "question".into(),
    );
    question.await.unwrap();
    let question = team.device.next().await;
    assert_eq!(question.payload, "question");
    let topic = question.topic.replace("/down/", "/up/");
    assert_eq!(team.device.publish_acked(&topic, "answer").await, 0);
    // What the other one has is as it was.
    let own = jetstream::new(other.client.clone());
    let own = own.create_stream("DEVICE_UP").await.unwrap();
    assert_eq!(own.cached_info().config.name, "DEVICE_UP");
    other.commands().await;
    let mut durable = other.durable().await;
    assert_eq!(durable.info().await.unwrap().num_ack_pending, 1);
    held.double_ack().await.unwrap();
}

#[tokio::test]
async fn an_import_of_another_product_is_an_error_at_the_start() {
    let config = with(PRODUCTS);
    for (own, others) in [
        ("device.up.*.P.*", "device.up.*.Q.*"),
        ("device.up.*.P.*", "device.up.*.P.>"),
        ("device.down.*.*.P.*", "device.down.*.*.*.*"),
        ("DEVICE_UP.P\"", "DEVICE_UP.Q\""),
        ("DEVICE_UP.P.>", "DEVICE_UP.>"),
    ] {
        assert!(config.contains(own));
        let (server, _) = nats(&config.replacen(own, others, 1)).await;
        eventually("it ends", async || match server.is_running() {
            true => Err("it runs".to_owned()),
            false => Ok(()),
        })
        .await;
        let log = server.log();
        assert!(log.contains("import not authorized"), "{others}: {log}");
    }
}
