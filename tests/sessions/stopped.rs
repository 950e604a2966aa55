//! A node stands still (SIGSTOP) while its clients go elsewhere, and goes on later: it has nothing to say about them any more.

use std::time::Instant;

use jetway::mqtt::{QoS, Version};

use crate::client::{Client, Hello, Step};
use crate::site::{BOTH, Site};
use crate::support::{Gateway, eventually};

/// A client of the node that is to stop.
struct Moved {
    hello: Hello,
    down: String,
    stored: bool,
    old: Client,
    /// What it was given and did not answer.
    packet_id: u16,
}

impl Moved {
    async fn begin(site: &Site, node: &Gateway, version: Version, stored: bool) -> Self {
        let client_id = format!("mover-{}-{stored}", version as u8);
        let hello = match stored {
            true => Hello::new(version, &client_id),
            false => Hello::passing(version, &client_id),
        }
        .with_will(0);
        let (mut old, _) = Client::connect(node.mqtt(), &hello).await;
        let down = format!("down/{client_id}");
        old.subscribe(&down, QoS::ExactlyOnce).await;
        site.send(&down, QoS::ExactlyOnce, "a").await;
        let packet_id = old.message().await.packet_id.unwrap().get();
        Self {
            hello,
            down,
            stored,
            old,
            packet_id,
        }
    }

    /// Goes to another node, and the old connection says what it would write if it still could.
    async fn go(&mut self, node: &Gateway) -> Client {
        self.old.step(Step::Pubrec, self.packet_id).await;
        // The other node may only be slow: it is waited for until its lease is over.
        let entered = eventually("the client is let in", async || {
            let connected = Client::try_connect(node.mqtt(), &self.hello).await;
            connected.ok_or_else(|| self.hello.client_id.clone())
        });
        let (mut new, present) = entered.await;
        assert_eq!(present, self.stored);
        if self.stored {
            let again = new.message().await;
            assert_eq!(again.packet_id.unwrap().get(), self.packet_id);
            assert_eq!(again.payload, "a");
        } else {
            new.subscribe(&self.down, QoS::ExactlyOnce).await;
        }
        new
    }

    /// All that there is comes from the new connection.
    async fn is_untouched(&self, site: &Site, client: &mut Client) {
        if self.stored {
            client.step(Step::Pubrec, self.packet_id).await;
            client.expect(Step::Pubrel, self.packet_id).await;
            client.step(Step::Pubcomp, self.packet_id).await;
        }
        site.send(&self.down, QoS::AtLeastOnce, "b").await;
        assert_eq!(client.message().await.payload, "b");
        assert!(client.ping().await.is_empty());
        let who = &self.hello.client_id;
        site.story_is(who, &["connected", "node_lost", "connected"])
            .await;
        // The end of the old connection was no normal one.
        let wills = site.stored(&format!("will/{who}")).await;
        assert_eq!(wills, std::slice::from_ref(who));
        let session = site.session(who).await.expect("connected");
        assert!(session["disconnected_at_ms"].is_null(), "{session}");
    }
}

#[tokio::test]
async fn g01_a_node_stopped_during_a_takeover_says_nothing_when_it_goes_on() {
    let site = Site::start().await;
    let (first, second) = (site.node().await, site.node().await);
    let mut moved = Vec::new();
    for version in BOTH {
        for stored in [false, true] {
            moved.push(Moved::begin(&site, &first, version, stored).await);
        }
    }
    first.pause().await;
    let mut clients = Vec::new();
    let started = Instant::now();
    for one in &mut moved {
        clients.push(one.go(&second).await);
    }
    println!("taken by force: {} in {:?}", moved.len(), started.elapsed());
    first.resume();
    let resumed = Instant::now();
    for one in &mut moved {
        one.old.closed().await;
    }
    println!(
        "the old connections ended {:?} after SIGCONT",
        resumed.elapsed()
    );
    eventually("the first node has no connections", async || {
        match first.metric("jetway_connections").await {
            0.0 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    for (one, client) in moved.iter().zip(&mut clients) {
        one.is_untouched(&site, client).await;
    }
}

#[tokio::test]
async fn g28_a_node_stopped_for_longer_than_its_lease_gives_up_what_was_swept() {
    let site = Site::start().await;
    let first = site.node().await;
    let second = site.node().await;
    let hellos = clients();
    let mut olds = Vec::new();
    for hello in &hellos {
        olds.push(Client::connect(first.mqtt(), hello).await.0);
    }
    first.pause().await;
    for hello in &hellos {
        site.story_is(&hello.client_id, &["connected", "node_lost"])
            .await;
    }
    first.resume();
    for old in &mut olds {
        old.closed().await;
    }
    comes_back(&site, &[&first, &second], &hellos).await;
}

#[tokio::test]
async fn g28_a_node_stopped_alone_keeps_its_clients() {
    let site = Site::start().await;
    let first = site.node().await;
    let hello = Hello::new(Version::V5, "loyal");
    let (mut client, _) = Client::connect(first.mqtt(), &hello).await;
    first.pause().await;
    eventually("the lease is over", async || {
        let leases = site.backend.messages("KV_jetway_nodes", ">").await;
        match leases.iter().any(|lease| lease.text() == "{}") {
            false => Ok(()),
            true => Err(format!("{leases:?}")),
        }
    })
    .await;
    first.resume();
    client.subscribe("down", QoS::AtLeastOnce).await;
    eventually("the doubt is over", async || {
        let log = first.log();
        match log.contains("in doubt") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    site.send("down", QoS::AtLeastOnce, "a").await;
    assert_eq!(client.message().await.payload, "a");
    site.story_is("loyal", &["connected"]).await;
}

fn clients() -> Vec<Hello> {
    BOTH.into_iter()
        .flat_map(|version| {
            [
                Hello::new(version, &format!("stored-{}", version as u8)),
                Hello::passing(version, &format!("passing-{}", version as u8)),
            ]
        })
        .collect()
}

async fn comes_back(site: &Site, nodes: &[&Gateway], hellos: &[Hello]) {
    for (number, hello) in hellos.iter().enumerate() {
        let node = nodes[number % nodes.len()];
        let (_client, present) = Client::connect(node.mqtt(), hello).await;
        assert_eq!(present, !hello.clean);
        site.story_is(&hello.client_id, &["connected", "node_lost", "connected"])
            .await;
    }
}

#[tokio::test]
async fn g25_nats_restarted_under_two_nodes_loses_no_connection() {
    let mut site = Site::start().await;
    let nodes = [site.node().await, site.node().await];
    let mut clients = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let hello = Hello::new(Version::V5, &format!("steady-{number}")).with_will(0);
        clients.push(Client::connect(node.mqtt(), &hello).await.0);
    }
    for round in 0..2 {
        site.nats.kill9().await;
        site.nats.restart().await;
        // Long enough for each node to look for the other one, whose lease is gone with the server's memory.
        let mut looked = 0;
        eventually("both leases are back", async || {
            let leases = site.backend.messages("KV_jetway_nodes", ">").await;
            looked += u64::from(leases.len() >= 2);
            match looked > 2 && leases.iter().all(|lease| lease.sequence > 10) {
                true => Ok(()),
                false => Err(format!("{leases:?}")),
            }
        })
        .await;
        for (number, client) in clients.iter_mut().enumerate() {
            client.publish_stored("alive", "x").await;
            site.story_is(&format!("steady-{number}"), &["connected"])
                .await;
        }
        println!("restart {round}: nobody was taken for lost");
    }
}
