//! One client identifier, two nodes, and a new connection before the last one is settled.

use std::time::Instant;

use jetway::mqtt::{QoS, Version};

use crate::client::{Client, Hello, Step};
use crate::site::{Site, assert_in_order};
use crate::support::eventually;

/// Each is a takeover.
const CONNECTS: usize = 50;

#[tokio::test]
async fn g28_rapid_takeovers_between_two_nodes_end_in_the_truth() {
    let site = Site::start().await;
    let nodes = [site.node().await, site.node().await];
    let hello = Hello::new(Version::V5, "fighter");
    let (mut client, _) = Client::connect(nodes[1].mqtt(), &hello).await;
    client.subscribe("down", QoS::ExactlyOnce).await;
    let started = Instant::now();
    for round in 0..CONNECTS {
        let (next, present) = Client::connect(nodes[round % 2].mqtt(), &hello).await;
        assert!(present, "G02: round {round}");
        drop(std::mem::replace(&mut client, next));
    }
    println!("{CONNECTS} takeovers in {:?}", started.elapsed());
    site.send("down", QoS::AtLeastOnce, "to the last").await;
    assert_eq!(client.message().await.payload, "to the last");
    // The client was let in before that is stored.
    let events = eventually("all connections are told of", async || {
        let events = site.events().await;
        match events.len() == 2 * CONNECTS + 1 {
            true => Ok(events),
            false => Err(format!("{} events", events.len())),
        }
    })
    .await;
    assert_in_order(&events);
    assert_eq!(events.last().unwrap().reason, None, "it is connected");
    let ends = events.iter().filter_map(|event| event.reason.as_deref());
    assert!(
        ends.into_iter()
            .all(|reason| matches!(reason, "taken_over" | "socket_closed"))
    );
}

#[tokio::test]
async fn g01_connects_to_both_nodes_at_once_leave_one_connection() {
    let site = Site::start().await;
    let nodes = [site.node().await, site.node().await];
    let hello = Hello::new(Version::V5, "twins");
    let (mut client, _) = Client::connect(nodes[0].mqtt(), &hello).await;
    client.subscribe("down", QoS::AtLeastOnce).await;
    for _ in 0..10 {
        let mut asking = Vec::new();
        for number in 0..6 {
            asking.push(Client::ask(nodes[number % 2].mqtt(), &hello).await);
        }
        let mut open = Vec::new();
        for mut client in asking {
            // Let in, refused because others were in its way, or cut off.
            if client.poll().await.is_some() {
                open.push(client);
            }
        }
    }
    let (mut client, present) = Client::connect(nodes[1].mqtt(), &hello).await;
    assert!(present);
    site.send("down", QoS::AtLeastOnce, "one").await;
    let publish = client.message().await;
    client
        .step(Step::Puback, publish.packet_id.unwrap().get())
        .await;
    assert!(client.ping().await.is_empty());
    let last = eventually("all others are over", async || {
        let events = site.events().await;
        let begun = events.iter().filter(|event| event.reason.is_none()).count();
        match events.len() == 2 * begun - 1 {
            true => Ok(events),
            false => Err(format!("{} events, {begun} begun", events.len())),
        }
    })
    .await;
    let epochs = last.iter().map(|event| event.epoch);
    let highest = last.iter().max_by_key(|event| event.epoch).unwrap();
    assert_eq!(highest.reason, None, "it is connected");
    println!("{} events, epochs up to {:?}", last.len(), epochs.max());
    assert_in_order(&last);
}
