//! How long sessions live, and what ends them.

use jetway::mqtt::{Disconnect, Packet, QoS, ReasonCode, Version};

use crate::client::{Client, Hello};
use crate::site::{BOTH, Site};
use crate::support::eventually;

#[tokio::test]
async fn a_session_is_gone_after_its_expiry_and_not_before() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let short = Hello {
        expiry_s: 1,
        ..Hello::new(Version::V5, "short")
    };
    let long = Hello {
        expiry_s: 60,
        ..Hello::new(Version::V5, "long")
    };
    for hello in [&short, &long] {
        let (mut client, _) = Client::connect(gateway.mqtt(), hello).await;
        client.subscribe("down", QoS::AtLeastOnce).await;
        client.disconnect(ReasonCode::Success).await;
    }
    site.session_is_gone("short").await;
    let (_client, present) = Client::connect(gateway.mqtt(), &short).await;
    assert!(!present);
    // Its minute is not over.
    let (_client, present) = Client::connect(gateway.mqtt(), &long).await;
    assert!(present);
}

#[tokio::test]
async fn a_session_expires_with_nobody_there() {
    let site = Site::start().await;
    let mut gateway = site.node().await;
    let short = Hello {
        expiry_s: 4,
        ..Hello::new(Version::V5, "short")
    };
    let (client, _) = Client::connect(gateway.mqtt(), &short).await;
    client.disconnect(ReasonCode::Success).await;
    site.is_settled("short").await;
    gateway.kill9().await;
    site.session_is_gone("short").await;
    let gateway = site.node().await;
    let (_client, present) = Client::connect(gateway.mqtt(), &short).await;
    assert!(!present);
}

#[tokio::test]
async fn disconnect_may_change_the_expiry() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let hello = Hello::new(Version::V5, "client");
    let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
    let mut disconnect = Disconnect::new(ReasonCode::Success);
    disconnect.session_expiry_interval = Some(0);
    client.send(Packet::Disconnect(disconnect)).await;
    client.closed().await;
    site.session_is_gone("client").await;
    let (_client, present) = Client::connect(gateway.mqtt(), &hello).await;
    assert!(!present);
}

#[tokio::test]
async fn g02_a_clean_start_discards_everything() {
    let site = Site::start().await;
    let gateway = site.node().await;
    for version in BOTH {
        let hello = Hello::new(version, &format!("v{}", version as u8));
        let clean = Hello {
            clean: true,
            expiry_s: 0,
            ..hello.clone()
        };
        let topic = format!("down/{}", hello.client_id);
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        client.subscribe(&topic, QoS::AtLeastOnce).await;
        site.send(&topic, QoS::AtLeastOnce, "unacknowledged").await;
        client.message().await;
        client.disconnect(ReasonCode::Success).await;
        site.send(&topic, QoS::AtLeastOnce, "waiting").await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &clean).await;
        assert!(!present);
        site.send(&topic, QoS::AtLeastOnce, "not subscribed").await;
        assert!(client.ping().await.is_empty());
        client.disconnect(ReasonCode::Success).await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(!present);
        assert!(client.ping().await.is_empty());
        client.disconnect(ReasonCode::Success).await;
    }
}

#[tokio::test]
async fn g02_a_clean_start_gives_up_shared_subscriptions() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let hello = Hello::new(Version::V5, "member");
    let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
    client
        .subscribe("$share/group/down", QoS::AtLeastOnce)
        .await;
    client.disconnect(ReasonCode::Success).await;
    let consumers = async || {
        let mut stream = site.backend.stream("MQTT").await;
        let info = stream.info().await.unwrap();
        info.state.consumer_count
    };
    eventually("only the share is left", async || match consumers().await {
        2 => Ok(()),
        count => Err(format!("{count} consumers")),
    })
    .await;
    site.is_settled("member").await;
    let clean = Hello {
        clean: true,
        ..hello
    };
    let (_client, present) = Client::connect(gateway.mqtt(), &clean).await;
    assert!(!present);
    eventually("the share is gone", async || match consumers().await {
        1 => Ok(()),
        count => Err(format!("{count} consumers")),
    })
    .await;
}
