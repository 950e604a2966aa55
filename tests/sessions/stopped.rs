//! A node stands still (SIGSTOP) while its clients go elsewhere, and goes on later: it has nothing to say about them any more.

use jetway::mqtt::{QoS, Version};

use crate::client::{Client, Hello, Step};
use crate::site::{BOTH, Site};
use crate::support::{Gateway, eventually};

#[tokio::test]
async fn g01_a_node_stopped_during_a_takeover_says_nothing_when_it_goes_on() {
    let site = Site::start().await;
    let (first, second) = (site.node().await, site.node().await);
    let mut moved = Vec::new();
    for version in BOTH {
        for stored in [false, true] {
            let client_id = format!("mover-{}-{stored}", version as u8);
            let hello = match stored {
                true => Hello::new(version, &client_id),
                false => Hello::passing(version, &client_id),
            }
            .with_will(0);
            let (mut old, _) = Client::connect(first.mqtt(), &hello).await;
            let down = format!("down/{client_id}");
            old.subscribe(&down, QoS::ExactlyOnce).await;
            site.send(&down, QoS::ExactlyOnce, "a").await;
            let publish = old.message().await;
            moved.push((hello, down, stored, old, publish));
        }
    }
    first.pause().await;
    let mut clients = Vec::new();
    for (hello, down, stored, old, publish) in &mut moved {
        // What the old connection would write if it were still one.
        let packet_id = publish.packet_id.unwrap().get();
        old.step(Step::Pubrec, packet_id).await;
        let (mut new, present) = Client::connect(second.mqtt(), hello).await;
        assert_eq!(present, *stored);
        match stored {
            true => {
                let again = new.message().await;
                assert_eq!(
                    (again.packet_id, again.payload),
                    (publish.packet_id, publish.payload.clone())
                );
            }
            false => new.subscribe(down, QoS::ExactlyOnce).await,
        }
        clients.push(new);
    }
    first.resume();
    for (_, _, _, old, _) in &mut moved {
        old.closed().await;
    }
    eventually("the first node has no connections", async || {
        match first.metric("jetway_connections").await {
            0.0 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    for ((hello, down, stored, _, publish), client) in moved.iter().zip(&mut clients) {
        let packet_id = publish.packet_id.unwrap().get();
        if *stored {
            client.step(Step::Pubrec, packet_id).await;
            client.expect(Step::Pubrel, packet_id).await;
            client.step(Step::Pubcomp, packet_id).await;
        }
        site.send(down, QoS::AtLeastOnce, "b").await;
        assert_eq!(client.message().await.payload, "b");
        assert!(client.ping().await.is_empty());
        let who = &hello.client_id;
        site.story_is(who, &["connected", "node_lost", "connected"])
            .await;
        // The end of the old connection was no normal one.
        assert_eq!(
            site.stored(&format!("will/{who}")).await,
            std::slice::from_ref(who)
        );
        let session = site.session(who).await.expect("connected");
        assert_eq!(session["disconnected_at_ms"], serde_json::Value::Null);
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
