//! What waits for a client is handed over while the gateway dies at every message of it.

use jetway::mqtt::{Packet, QoS, Version};

use crate::client::{Application, Client, Hello};
use crate::site::{BOTH, Site};
use crate::support::Gateway;

const MESSAGES: usize = 20;
const WINDOW: u16 = 4;

struct Subscriber {
    hello: Hello,
    qos: QoS,
    /// The gateway dies when so many packets were taken.
    packets: usize,
    /// Whether the last one was answered.
    answers: bool,
    application: Application,
}

impl Subscriber {
    async fn begin(
        gateway: &Gateway,
        qos: QoS,
        version: Version,
        packets: usize,
        answers: bool,
    ) -> Self {
        let client_id = format!("{}-{}-{packets}-{answers}", version as u8, qos as u8);
        let hello = Hello {
            receive_maximum: (version == Version::V5).then_some(WINDOW),
            ..Hello::new(version, &client_id)
        };
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        client.subscribe("backlog", qos).await;
        client.disconnect(jetway::mqtt::ReasonCode::Success).await;
        Self {
            hello,
            qos,
            packets,
            answers,
            application: Application::default(),
        }
    }

    async fn advance(&mut self, gateway: &Gateway) -> Client {
        let (mut client, present) = Client::connect(gateway.mqtt(), &self.hello).await;
        assert!(present);
        for packet in 1..=self.packets {
            let next = client.next().await;
            if let Some((step, id)) = self.application.take(&next)
                && (packet < self.packets || self.answers)
            {
                client.step(step, id).await;
            }
        }
        client
    }
}

#[tokio::test]
async fn a_gateway_killed_at_every_message_of_a_backlog_loses_none() {
    let site = Site::start().await;
    let mut gateway = site
        .node_with(&[("JETWAY_SESSION_DOWNLINK_INFLIGHT_MAX", "4")])
        .await;
    let mut subscribers = Vec::new();
    for packets in 1..=MESSAGES {
        for answers in [false, true] {
            for (qos, version) in [
                (QoS::AtLeastOnce, BOTH[packets % 2]),
                (QoS::ExactlyOnce, BOTH[1 - packets % 2]),
            ] {
                // A QoS 2 message is two packets.
                let packets = packets * qos as usize;
                let begun = Subscriber::begin(&gateway, qos, version, packets, answers).await;
                subscribers.push(begun);
            }
        }
    }
    let texts: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    for text in &texts {
        site.send("backlog", QoS::ExactlyOnce, text).await;
    }
    let mut clients = Vec::new();
    for subscriber in &mut subscribers {
        clients.push(subscriber.advance(&gateway).await);
    }
    gateway = site.killed(gateway).await;
    drop(clients);
    site.send("backlog", QoS::ExactlyOnce, "last").await;
    let mut repeated = 0;
    for subscriber in &mut subscribers {
        let (mut client, present) = Client::connect(gateway.mqtt(), &subscriber.hello).await;
        assert!(present);
        subscriber.application.run_until(&mut client, "last").await;
        let application = &subscriber.application;
        let who = &subscriber.hello.client_id;
        let mut expected: Vec<&str> = texts.iter().map(String::as_str).collect();
        expected.push("last");
        assert_eq!(
            application.first_times(),
            expected,
            "{who}: in order, none lost"
        );
        let again = application.given.len() - expected.len();
        match subscriber.qos {
            QoS::ExactlyOnce => assert_eq!(again, 0, "{who}: once"),
            _ => repeated += again,
        }
        assert!(client.ping().await.is_empty(), "{who}");
    }
    println!(
        "{} sessions; repeated with QoS 1: {repeated}",
        subscribers.len()
    );
}

#[tokio::test]
async fn who_subscribes_on_while_a_backlog_waits_gets_it_too() {
    let site = Site::start().await;
    let gateway = site.node().await;
    for version in BOTH {
        let hello = Hello::new(version, &format!("{version:?}"));
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        client.subscribe("backlog", QoS::AtLeastOnce).await;
        client.disconnect(jetway::mqtt::ReasonCode::Success).await;
        site.send("backlog", QoS::AtLeastOnce, "1").await;
        // Its retained messages are read before anything that waits goes on.
        let mut client = Client::ask(gateway.mqtt(), &hello).await;
        client.send_subscribe("more", QoS::AtLeastOnce).await;
        assert!(client.connack().await.session_present);
        let came = [client.next().await, client.next().await];
        let is_backlog = |packet: &Packet| match packet {
            Packet::Publish(publish) => publish.payload == "1",
            _ => false,
        };
        assert!(came.iter().any(is_backlog), "{came:?}");
    }
}
