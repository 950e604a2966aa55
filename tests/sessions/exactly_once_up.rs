//! QoS 2 from a client: the gateway is killed between any two steps, and the message is stored once.

use jetway::mqtt::{Packet, QoS, Version};

use crate::client::{Client, Step};
use crate::site::{BOTH, Publisher, Site};
use crate::support::Gateway;

/// How far a client is when the gateway dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Connected,
    /// Sent a moment ago: what became of it is open.
    Published,
    Pubrec,
    /// As [`Self::Published`].
    Released,
    Pubcomp,
}

const ALL: [Reached; 5] = [
    Reached::Connected,
    Reached::Published,
    Reached::Pubrec,
    Reached::Released,
    Reached::Pubcomp,
];
const ID: u16 = 7;

struct Uplink {
    publisher: Publisher,
    reached: Reached,
    client: Client,
}

impl Uplink {
    async fn begin(
        site: &Site,
        gateway: &Gateway,
        version: Version,
        reached: Reached,
        number: usize,
    ) -> Self {
        let client_id = format!("{}-{reached:?}-{number}", version as u8);
        let publisher = site.publisher(version, &client_id);
        let (client, present) = Client::connect(gateway.mqtt(), &publisher.hello).await;
        assert!(!present);
        Self {
            publisher,
            reached,
            client,
        }
    }

    /// Up to where the gateway is to die.
    async fn advance(&mut self) {
        let client = &mut self.client;
        if self.reached >= Reached::Published {
            client
                .publish(&self.publisher.topic, QoS::ExactlyOnce, ID, "once")
                .await;
        }
        if self.reached >= Reached::Pubrec {
            client.expect(Step::Pubrec, ID).await;
        }
        if self.reached >= Reached::Released {
            client.step(Step::Pubrel, ID).await;
        }
        if self.reached >= Reached::Pubcomp {
            client.expect(Step::Pubcomp, ID).await;
        }
    }

    /// Comes back and sends again what was not answered [MQTT-4.4.0-1].
    async fn resume(&mut self, gateway: &Gateway) {
        let Publisher { hello, topic, .. } = &self.publisher;
        let (mut client, present) = Client::connect(gateway.mqtt(), hello).await;
        assert!(present, "{}", hello.client_id);
        match self.reached {
            Reached::Connected => client.publish(topic, QoS::ExactlyOnce, ID, "once").await,
            Reached::Published => {
                client
                    .publish_again(topic, QoS::ExactlyOnce, ID, "once")
                    .await
            }
            Reached::Pubrec | Reached::Released | Reached::Pubcomp => {}
        }
        if self.reached <= Reached::Published {
            client.expect(Step::Pubrec, ID).await;
        }
        if self.reached < Reached::Pubcomp {
            client.step(Step::Pubrel, ID).await;
            released(&mut client).await;
        }
        self.client = client;
    }

    /// The identifier is free: the next message is another one.
    async fn next_message(&mut self) {
        let client = &mut self.client;
        client
            .publish(&self.publisher.topic, QoS::ExactlyOnce, ID, "next")
            .await;
        client.expect(Step::Pubrec, ID).await;
        client.step(Step::Pubrel, ID).await;
        client.expect(Step::Pubcomp, ID).await;
    }
}

/// PUBCOMP; where the gateway had finished before it died, the identifier may be unknown (0x92).
async fn released(client: &mut Client) {
    match client.next().await {
        Packet::Pubcomp(ack) => assert_eq!(ack.packet_id.get(), ID),
        other => panic!("no PUBCOMP: {other:?}"),
    }
}

#[tokio::test]
async fn a_gateway_killed_between_any_two_steps_publishes_once_at_the_release() {
    let site = Site::start().await;
    killed_between_any_two_steps(&site).await;
    for client_id in ["4-Pubrec-0", "5-Pubrec-0", "4-Connected-0", "5-Connected-0"] {
        site.holds_nothing(client_id).await;
    }
}

#[tokio::test]
async fn a_gateway_killed_between_any_two_steps_stores_a_devices_message_once() {
    let site = Site::of_devices(60).await;
    killed_between_any_two_steps(&site).await;
}

async fn killed_between_any_two_steps(site: &Site) {
    let mut gateway = site.node().await;
    let mut uplinks = Vec::new();
    for version in BOTH {
        for reached in ALL {
            // Where the outcome is open, many stand for the moments it may be at.
            let count = match reached {
                Reached::Published | Reached::Released => 12,
                _ => 1,
            };
            for number in 0..count {
                uplinks.push(Uplink::begin(site, &gateway, version, reached, number).await);
            }
        }
    }
    // Those with an open outcome last, and at once.
    uplinks.sort_by_key(|uplink| matches!(uplink.reached, Reached::Published | Reached::Released));
    for uplink in &mut uplinks {
        uplink.advance().await;
    }
    gateway = site.killed(gateway).await;
    for uplink in &mut uplinks {
        uplink.resume(&gateway).await;
        uplink.next_message().await;
    }
    let mut open = [0, 0];
    for uplink in &uplinks {
        let stored = site.published(&uplink.publisher).await;
        assert_eq!(stored, ["once", "next"], "{}", uplink.publisher.topic);
        open[0] += 1;
        open[1] += stored.len();
    }
    println!(
        "{} clients, {} messages, each stored once",
        open[0], open[1]
    );
}

#[tokio::test]
async fn a_gateway_killed_again_and_again_stores_once() {
    for site in [Site::start().await, Site::of_devices(2).await] {
        killed_again_and_again(&site).await;
    }
}

async fn killed_again_and_again(site: &Site) {
    let mut gateway = site.node().await;
    for version in BOTH {
        let mut uplink = Uplink::begin(site, &gateway, version, Reached::Published, 0).await;
        uplink.advance().await;
        for reached in [
            Reached::Published,
            Reached::Published,
            Reached::Pubrec,
            Reached::Released,
        ] {
            gateway = site.killed(gateway).await;
            let (mut client, present) =
                Client::connect(gateway.mqtt(), &uplink.publisher.hello).await;
            assert!(present);
            if reached <= Reached::Pubrec {
                client
                    .publish_again(&uplink.publisher.topic, QoS::ExactlyOnce, ID, "once")
                    .await;
            }
            if reached == Reached::Pubrec {
                client.expect(Step::Pubrec, ID).await;
            }
            if reached == Reached::Released {
                client.step(Step::Pubrel, ID).await;
            }
            uplink.reached = reached;
        }
        gateway = site.killed(gateway).await;
        uplink.resume(&gateway).await;
        uplink.next_message().await;
        assert_eq!(site.published(&uplink.publisher).await, ["once", "next"]);
    }
}
