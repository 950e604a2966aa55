//! QoS 2 to a client: the gateway is killed between any two steps, and the application is given the message once.

use jetway::mqtt::{Packet, QoS, Version};

use crate::client::{Application, Client, Hello, Step};
use crate::site::{BOTH, Site};
use crate::support::{Gateway, eventually};

/// The last thing that a client does before the gateway dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Last {
    Subscribed,
    GotPublish,
    SentPubrec,
    GotPubrel,
    SentPubcomp,
}

const ALL: [Last; 5] = [
    Last::Subscribed,
    Last::GotPublish,
    Last::SentPubrec,
    Last::GotPubrel,
    Last::SentPubcomp,
];

struct Subscriber {
    hello: Hello,
    last: Last,
    client: Client,
    application: Application,
}

impl Subscriber {
    async fn begin(gateway: &Gateway, version: Version, last: Last) -> Self {
        let hello = Hello::new(version, &format!("{}-{last:?}", version as u8));
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        client.subscribe("down", QoS::ExactlyOnce).await;
        Self {
            hello,
            last,
            client,
            application: Application::default(),
        }
    }

    /// Takes the first message of those that are sent as far as it is to come.
    async fn advance(&mut self) {
        if self.last == Last::Subscribed {
            return;
        }
        let publish = self.client.next().await;
        let (_, packet_id) = self.application.take(&publish).expect("QoS 2");
        if self.last >= Last::SentPubrec {
            self.client.step(Step::Pubrec, packet_id).await;
        }
        if self.last >= Last::GotPubrel {
            self.client.expect(Step::Pubrel, packet_id).await;
            let released = Packet::Pubrel(jetway::mqtt::Ack::new(
                crate::client::id(packet_id),
                jetway::mqtt::ReasonCode::Success,
            ));
            self.application.take(&released);
        }
        if self.last >= Last::SentPubcomp {
            self.client.step(Step::Pubcomp, packet_id).await;
        }
    }

    async fn come_back(&mut self, gateway: &Gateway) {
        let (client, present) = Client::connect(gateway.mqtt(), &self.hello).await;
        assert!(present, "{}", self.hello.client_id);
        self.client = client;
    }
}

#[tokio::test]
async fn a_gateway_killed_between_any_two_steps_delivers_once() {
    let site = Site::start().await;
    let mut gateway = site.node().await;
    let mut subscribers = Vec::new();
    for version in BOTH {
        for last in ALL {
            subscribers.push(Subscriber::begin(&gateway, version, last).await);
        }
    }
    let mut texts = Vec::new();
    // In each round the next message is the one that the gateway dies at.
    for round in 0..3 {
        for number in 0..3 {
            let text = format!("{round}.{number}");
            site.send("down", QoS::ExactlyOnce, &text).await;
            texts.push(text);
        }
        for subscriber in &mut subscribers {
            subscriber.advance().await;
        }
        gateway = site.killed(gateway).await;
        let text = format!("{round} last");
        site.send("down", QoS::ExactlyOnce, &text).await;
        for subscriber in &mut subscribers {
            subscriber.come_back(&gateway).await;
            let Subscriber {
                client,
                application,
                ..
            } = subscriber;
            application.run_until(client, &text).await;
        }
        texts.push(text);
    }
    for subscriber in &mut subscribers {
        let (given, who) = (&subscriber.application.given, &subscriber.hello.client_id);
        assert_eq!(given, &texts, "{who}: exactly once, in order");
        assert!(subscriber.client.ping().await.is_empty(), "{who}");
    }
    println!(
        "{} subscribers, {} messages each, each given once",
        subscribers.len(),
        texts.len()
    );
}

#[tokio::test]
async fn g07_unacknowledged_messages_come_first_with_dup_and_their_ids() {
    let site = Site::start().await;
    let mut gateway = site.node().await;
    for version in BOTH {
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let topic = format!("dup/{}/{}", version as u8, qos as u8);
            let hello = Hello::new(version, &topic.replace('/', "-"));
            let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
            client.subscribe(&topic, qos).await;
            for text in ["a", "b", "c"] {
                site.send(&topic, qos, text).await;
            }
            let mut before = Vec::new();
            for _ in 0..3 {
                let publish = client.message().await;
                assert!(!publish.dup);
                before.push((publish.packet_id, publish.payload));
            }
            eventually("it is written what is unacknowledged", async || {
                let session = site.session(&hello.client_id).await.expect("a session");
                match session["session"]["inflight"].as_array() {
                    Some(inflight) if inflight.len() == 3 => Ok(()),
                    _ => Err(session.to_string()),
                }
            })
            .await;
            gateway = site.killed(gateway).await;
            site.send(&topic, qos, "d").await;
            let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
            assert!(present);
            for expected in before {
                let publish = client.message().await;
                assert!(publish.dup, "[MQTT-3.3.1-1]");
                assert_eq!((publish.packet_id, publish.payload), expected);
            }
            let next = client.message().await;
            assert_eq!(next.payload, "d");
            assert!(!next.dup);
        }
    }
}
