//! Wills that wait for their client on a node that does not live so long.

use std::time::Duration;

use jetway::mqtt::Version;

use crate::client::{Client, Hello};
use crate::site::Site;
use crate::support::{Gateway, lasting};

/// Clients whose Wills wait at this node: they were there and are away.
async fn waiting(site: &Site, gateway: &Gateway, delay_s: u32) -> Vec<Hello> {
    let mut hellos = Vec::new();
    for number in 0..5 {
        let hello = Hello::new(Version::V5, &format!("client-{number}")).with_will(delay_s);
        drop(Client::connect(gateway.mqtt(), &hello).await);
        site.story_is(&hello.client_id, &["connected", "socket_closed"])
            .await;
        hellos.push(hello);
    }
    hellos
}

#[tokio::test]
async fn g10_a_will_that_waits_at_a_killed_node_is_published_by_another_one() {
    let site = Site::start().await;
    let mut first = site.node().await;
    let second = site.node().await;
    let hellos = waiting(&site, &first, 4).await;
    let (last, others) = hellos.split_last().expect("five clients");
    first.kill9().await;
    // The last one to leave is back in time, elsewhere. Its next Will does not wait.
    let back = last.clone().with_will(0);
    let (client, present) = Client::connect(second.mqtt(), &back).await;
    assert!(present);
    let marker = Hello::new(Version::V5, "marker").with_will(5);
    drop(Client::connect(second.mqtt(), &marker).await);
    for hello in others {
        site.has_will(&hello.client_id).await;
        site.story_is(&hello.client_id, &["connected", "socket_closed"])
            .await;
    }
    // One that began later and waits longer: the time of the other was over.
    site.has_will("marker").await;
    let will = format!("will/{}", back.client_id);
    assert!(site.stored(&will).await.is_empty());
    drop(client);
    site.has_will(&back.client_id).await;
}

#[tokio::test]
async fn g10_a_will_that_waits_at_a_killed_node_is_published_by_itself_after_its_restart() {
    let site = Site::start().await;
    let first = site.node().await;
    let hellos = waiting(&site, &first, 1).await;
    let _second = site.killed(first).await;
    for hello in &hellos {
        site.has_will(&hello.client_id).await;
    }
}

#[tokio::test]
async fn g10_a_will_that_waits_at_a_node_that_stops_is_published_by_another_one() {
    let site = Site::start().await;
    let mut first = site.node().await;
    let _second = site.node().await;
    let hellos = waiting(&site, &first, 1).await;
    first.terminate();
    assert!(first.wait().await.success());
    for hello in &hellos {
        site.has_will(&hello.client_id).await;
    }
}

#[tokio::test]
async fn g02_a_session_goes_on_although_its_will_was_due_and_nobody_published_it() {
    let site = Site::start().await;
    // Nobody takes the first one for dead while the test lasts.
    let lease = [("JETWAY_OWNERSHIP_LEASE_S", "60")];
    let mut first = site.node_with(&lease).await;
    let second = site.node_with(&lease).await;
    let hellos = waiting(&site, &first, 1).await;
    first.kill9().await;
    lasting(Duration::from_millis(1_200)).await;
    for hello in &hellos {
        let (_client, present) = Client::connect(second.mqtt(), hello).await;
        assert!(present);
        site.has_will(&hello.client_id).await;
    }
}
