//! What a gateway with all its roles does with NATS, what a service does and what an operator does: each kind of it once.

use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt as _;
use jetway::jetstream::consumer::{Consumer, Next};
use jetway::jetstream::{Link, client};

use crate::permissions::{Permitted, url};
use crate::site::{PRODUCT, Site};
use crate::support::{Connect, Credentials, Device, Protocol, Publish, eventually, http, within};

const REPORT: &str = r#"{"method":"report","msgToken":"t1","params":{"temp":21.50}}"#;
const POSITION: &str =
    r#"{"method":"report","msgToken":"t2","params":{"latitude":48.1,"longitude":11.5}}"#;
const TOPOLOGY: &str = r#"{"method":"getTopo","msgToken":"g1"}"#;
/// Two of these are more than a consumer with flow control sends before it is answered.
const MUCH: usize = 700_000;

/// A command for the device, with these headers beside its type.
pub(crate) async fn command(service: &Client, subject: &str, headers: &[(&str, &str)]) {
    let mut all = HeaderMap::new();
    for (name, value) in [("Jw-Type", "property")].iter().chain(headers) {
        all.insert(*name, *value);
    }
    let subject = subject.to_owned();
    let sent = service.publish_with_headers(subject, all, "down".into());
    sent.await.unwrap();
}

/// Asks the device and lets it answer.
pub(crate) async fn ask(service: &Client, device: &mut Device, who: &str) {
    let subject = format!("device.rpc.mqtt.rpc.{}", who.replace('/', "."));
    let asked = service.request(subject, "question".into());
    let answered = async {
        let topic = device.next().await.topic.replace("/down/", "/up/");
        assert_eq!(device.publish_acked(&topic, "answer").await, 0);
    };
    assert_eq!(tokio::join!(asked, answered).0.unwrap().payload, "answer");
}

impl Permitted {
    /// A device with a session that stays.
    pub(crate) async fn device(&self, protocol: Protocol) -> Device {
        let mut connect = Connect::new(protocol, self.gateway.mqtt(), &Site::device(0));
        connect.clean = false;
        // It is told to try again until the gateway has heard that it may.
        eventually("the device is let in", async || {
            let connected = Box::pin(Device::connect_with(connect.clone())).await;
            connected.map_err(|closed| closed.error)
        })
        .await
    }

    /// Reports, commands, requests, and devices that are shut out.
    pub(crate) async fn serve_devices(&self, service: &Client) {
        let mut live = service.subscribe("device.up.thing.>").await.unwrap();
        let mut receipts = service.subscribe("receipt.d0").await.unwrap();
        // Whatever is answered comes after the server has read the subscriptions; the client's flush waits for the socket alone.
        let nobody = service.request("device.rpc.mqtt.rpc.P.nobody", "".into());
        within("an answer", nobody).await.unwrap();
        for protocol in [Protocol::V311, Protocol::V5] {
            let mut device = self.device(protocol).await;
            assert_eq!(device.publish_acked(&Site::topic(0), REPORT).await, 0);
            let exactly_once = Publish {
                qos: 2,
                ..Publish::new(&Site::topic(0), POSITION)
            };
            device.publish(exactly_once);
            assert_eq!(device.acked().await.unwrap().reason, 0);
            within("the live copy", live.next()).await.unwrap();
            let filter = "$thing/down/property/P/d0";
            assert_eq!(device.subscribe(filter).await, 1);
            let headers = [("Jw-Receipt", "receipt.d0")];
            command(service, "device.down.thing.P.d0", &headers).await;
            assert_eq!(device.next().await.payload, "down");
            within("a receipt", receipts.next()).await.unwrap();
            assert_eq!(device.subscribe("$rpc/down/+/P/d0").await, 1);
            ask(service, &mut device, "P/d0").await;
            assert_eq!(
                device
                    .publish_acked("$gateway/up/topo/P/d0", TOPOLOGY)
                    .await,
                0
            );
            self.operate(&["device", "block", PRODUCT, "d0"]);
            device.closed().await;
            self.operate(&["device", "enable", PRODUCT, "d0"]);
        }
    }

    /// A service with a durable, in both ways in which one may read it; what falls out of it, and what cannot be delivered.
    pub(crate) async fn give_up_and_replay(&self, service: &Client) {
        let durable = jetstream::new(service.clone());
        let durable: jetstream::consumer::PullConsumer = durable
            .get_consumer_from_stream("iot-core", "DEVICE_UP")
            .await
            .unwrap();
        let mut messages = durable.fetch().max_messages(2).messages().await.unwrap();
        for answer in [AckKind::Ack, AckKind::Term] {
            let message = within("an uplink", messages.next()).await.unwrap().unwrap();
            message.ack_with(answer).await.unwrap();
        }
        self.wait_for_dead_letter("durable").await;
        self.operate(&["dlq", "replay", "--origin", "durable"]);

        let config = client::Config {
            url: url("service", self.port),
            ..client::Config::default()
        };
        let link = Link::connect(&config).await.unwrap();
        let (mut durable, _) = Consumer::bind(&link, &"DEVICE_UP".into(), "iot-core")
            .await
            .unwrap();
        durable.pull(1).await;
        let Next::Message(message) = within("an uplink", durable.next()).await else {
            panic!("expected a message");
        };
        let poison = jetway::jetstream::consumer::Answer::Terminate("poison".into());
        durable.answer(message.reply, poison).await;
        self.wait_for_dead_letter("durable").await;
        let replayed = http::request(
            self.gateway.ready.http,
            "POST",
            "/dlq/replay?origin=durable",
        );
        assert_eq!(replayed.await.0, 200);

        let mut device = self.device(Protocol::V5).await;
        let filter = "$thing/down/property/P/d0";
        assert_eq!(device.subscribe(filter).await, 1);
        // What is retained also comes to who subscribes later, so nobody does who waits for something else.
        for headers in [("Jw-Retain", "1"), ("Jw-Qos", "9")] {
            command(service, "device.down.thing.P.d0", &[headers]).await;
        }
        self.wait_for_dead_letter("downlink").await;
        self.operate(&["dlq", "replay", "--origin", "downlink"]);
    }

    pub(crate) async fn wait_for_dead_letter(&self, origin: &str) {
        eventually("there is a dead letter", async || {
            match self.operate(&["dlq", "ls", "--origin", origin, "--json"]) {
                none if none.trim().is_empty() => Err("none".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }

    /// Who is blocked, is changed, and is unknown.
    pub(crate) async fn ask_the_operators_port(&self) {
        for path in ["/readyz", "/bans"] {
            let (status, body) = self.gateway.get(path).await;
            assert_eq!(status, 200, "{path}: {body}");
        }
        let state = "/devices/P/d0/state";
        for new in ["blocked", "enabled"] {
            let body = format!(r#"{{"state":"{new}"}}"#);
            let (status, body) = http::send(self.gateway.ready.http, "PUT", state, &body).await;
            assert_eq!(status, 200, "{body}");
        }
        let stranger = Credentials::anybody("stranger");
        let stranger = Connect::new(Protocol::V5, self.gateway.mqtt(), &stranger);
        // Nobody decides about it.
        assert!(Device::connect_with(stranger).await.is_err());
    }

    /// An outbox row whose relay did not hear whether it is stored, two minutes ago.
    pub(crate) async fn relay_again(&self) {
        let database = sqlx::SqlitePool::connect(self.gateway.database_url());
        let database = database.await.unwrap();
        let published = "UPDATE outbox_event SET status = 'pending', tried_at = created_at - 120000 \
             WHERE status = 'published'";
        eventually("a row was published", async || {
            let rows = sqlx::query(published).execute(&database).await;
            match rows.map(|done| done.rows_affected()) {
                Ok(0) => Err("none".to_owned()),
                rows => rows.map(drop).map_err(|error| error.to_string()),
            }
        })
        .await;
    }

    /// So much that consumers with flow control are to be told to go on.
    pub(crate) async fn fill_a_window(&self) {
        let mut device = self.device(Protocol::V5).await;
        let much = format!(
            r#"{{"method":"report","params":{{"a":"{}"}}}}"#,
            "a".repeat(MUCH)
        );
        for _ in 0..3 {
            let reason = device.publish_acked(&Site::topic(0), much.clone()).await;
            assert_eq!(reason, 0);
        }
    }

    /// Clients of the open profile: exactly once, retained, shared, and from a service.
    pub(crate) async fn serve_clients(&self, service: &Client) {
        for protocol in [Protocol::V311, Protocol::V5] {
            let mut client = self.device(protocol).await;
            assert_eq!(client.subscribe("$share/g/a").await, 1);
            for (qos, retain) in [(1, true), (2, false)] {
                let publish = Publish {
                    qos,
                    retain,
                    ..Publish::new("a", "x")
                };
                client.publish(publish);
                assert_eq!(client.acked().await.unwrap().reason, 0);
                assert_eq!(client.next().await.payload, "x");
            }
            service.publish("mqtt.a", "y".into()).await.unwrap();
            assert_eq!(client.next().await.payload, "y");
            assert_eq!(client.unsubscribe("$share/g/a").await, 0);
            client.disconnect().await;
        }
        eventually("the share is over", async || {
            match self.server.log().contains("CONSUMER.DELETE.MQTT") {
                true => Ok(()),
                false => Err("it goes on".to_owned()),
            }
        })
        .await;
    }
}
