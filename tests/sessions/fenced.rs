//! A node that NATS hears late, or not any more, while its client goes elsewhere: what it had taken from the client stands before
//! everything that comes later, or nowhere.

use std::net::SocketAddr;
use std::time::Duration;

use jetway::mqtt::{Packet, QoS, ReasonCode};

use crate::client::{Client, Hello};
use crate::site::{BOTH, Site};
use crate::support::{FaultProxy, Gateway, eventually};

/// A site, and a node whose way to NATS can fail.
async fn begin(lease_s: &str) -> (Site, FaultProxy, Gateway) {
    let site = Site::start().await;
    let nats = SocketAddr::from(([127, 0, 0, 1], site.nats.port()));
    let proxy = FaultProxy::start(nats).await;
    let lease = ("JETWAY_OWNERSHIP_LEASE_S", lease_s);
    let node = site.node_behind(&proxy, &[lease]).await;
    (site, proxy, node)
}

/// Connects as soon as somebody lets it in.
async fn comes_in(node: &Gateway, hello: &Hello) -> Client {
    let entered = eventually("the client is let in", async || {
        let connected = Client::try_connect(node.mqtt(), hello).await;
        connected.ok_or_else(|| hello.client_id.clone())
    });
    entered.await.0
}

fn count_cuts(node: &Gateway) -> usize {
    node.log().matches("NATS disconnected").count()
}

async fn has_finished_all(node: &Gateway) {
    eventually("nothing waits for the stream", async || {
        match node.metric("jetway_uplink_stream_waiting").await {
            0.0 => Ok(()),
            count => Err(format!("{count} messages")),
        }
    })
    .await;
}

#[tokio::test]
async fn g01_a_node_that_is_heard_late_has_the_last_word_before_its_client_is_let_in_elsewhere() {
    let (site, proxy, slow) = begin("30").await;
    let other = site.node_with(&[("JETWAY_OWNERSHIP_LEASE_S", "30")]).await;
    for version in BOTH {
        let who = format!("client-{}", version as u8);
        let hello = Hello::new(version, &who).with_will(0);
        let (mut client, _) = Client::connect(slow.mqtt(), &hello).await;
        client.publish_stored("up", &format!("{who} 1")).await;
        proxy.hold();
        client
            .publish("up", QoS::AtLeastOnce, 2, &format!("{who} 2"))
            .await;
        client.disconnect(ReasonCode::Success).await;
        eventually("what it sent is under way", async || match proxy.kept() {
            0 => Err(String::new()),
            _ => Ok(()),
        })
        .await;
        let mut refused = Client::ask(other.mqtt(), &hello).await;
        assert_eq!(
            refused.connack().await.reason,
            ReasonCode::ServerUnavailable
        );
        proxy.release();
        let mut client = comes_in(&other, &hello).await;
        client.publish_stored("up", &format!("{who} 3")).await;
        site.story_is(&who, &["connected", "normal", "connected"])
            .await;
        assert!(site.stored(&format!("will/{who}")).await.is_empty());
    }
    let stored = site.stored("up").await;
    let expected: Vec<_> = BOTH
        .iter()
        .flat_map(|version| (1..4).map(|number| format!("client-{} {number}", *version as u8)))
        .collect();
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn g01_what_a_client_sent_over_a_node_stands_before_what_it_sends_over_the_next_one() {
    let (site, proxy, slow) = begin("30").await;
    let other = site.node_with(&[("JETWAY_OWNERSHIP_LEASE_S", "30")]).await;
    proxy.delay(Duration::from_millis(100));
    for version in BOTH {
        let who = format!("client-{}", version as u8);
        let hello = Hello::new(version, &who);
        let topic = format!("up/{who}");
        let (mut client, _) = Client::connect(slow.mqtt(), &hello).await;
        for number in 0..200 {
            client
                .publish(&topic, QoS::AtMostOnce, 0, &number.to_string())
                .await;
        }
        client.ping().await;
        let mut next = comes_in(&other, &hello).await;
        next.publish_stored(&topic, "200").await;
        client.closed().await;
        let expected: Vec<_> = (0..=200).map(|number| number.to_string()).collect();
        assert_eq!(site.stored(&topic).await, expected);
        site.story_is(&who, &["connected", "taken_over", "connected"])
            .await;
    }
}

#[tokio::test]
async fn g01_what_a_node_could_not_store_before_its_client_was_taken_is_never_stored() {
    let (site, proxy, lost) = begin("2").await;
    let other = site.node().await;
    for version in BOTH {
        let who = format!("client-{}", version as u8);
        let hello = Hello::new(version, &who).with_will(0);
        let (topic, kept) = (format!("up/{who}"), format!("kept/{who}"));
        let (mut client, _) = Client::connect(lost.mqtt(), &hello).await;
        client.publish_stored(&topic, "1").await;
        proxy.refuse(true);
        let cuts = count_cuts(&lost) + 1;
        proxy.cut();
        // What it gives its NATS client until then may be on its way.
        eventually("the node knows", async || match count_cuts(&lost) {
            now if now >= cuts => Ok(()),
            now => Err(format!("{now} cuts")),
        })
        .await;
        client.publish(&topic, QoS::AtLeastOnce, 2, "lost").await;
        client
            .publish_retained(&kept, QoS::AtLeastOnce, 3, "lost")
            .await;
        // Handled, and not refused: it waits.
        assert!(client.ping().await.is_empty());

        let mut next = comes_in(&other, &hello).await;
        next.publish_retained(&kept, QoS::AtLeastOnce, 1, "new")
            .await;
        assert!(matches!(next.next().await, Packet::Puback(_)));
        next.publish_stored(&topic, "2").await;
        proxy.refuse(false);
        client.closed().await;
        has_finished_all(&lost).await;
        next.publish_stored(&topic, "3").await;
        assert_eq!(site.stored(&topic).await, ["1", "2", "3"]);
        assert_eq!(site.stored(&kept).await, ["new"]);
        let bucket = format!("$KV.jetway_retained.mqtt.kept.{who}");
        let retained = site.backend.messages("KV_jetway_retained", &bucket).await;
        assert_eq!(retained.last().unwrap().text(), "new");
        site.story_is(&who, &["connected", "node_lost", "connected"])
            .await;
        assert_eq!(site.stored(&format!("will/{who}")).await, [who]);
    }
}
