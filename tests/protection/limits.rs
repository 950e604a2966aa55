//! Each limit: the code that a device is told, what is counted, and what an operator sees of it.

use serde_json::Value;

use crate::site::Site;
use crate::support::{Device, Protocol, Publish, Wire, packet};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

#[tokio::test]
async fn a_product_has_so_many_connections_and_a_device_keeps_its_place() {
    let products = "{ connections_max = 2 }";
    let site = Site::start(3, &[("JETWAY_PROTECTION_PRODUCTS", products)]).await;
    let address = "192.0.2.7";
    let mut held = Vec::new();
    for number in [0, 1, 1] {
        // The third one takes over from the second.
        let (code, wire) = site
            .connect(address, Protocol::V5, &Site::device(number))
            .await;
        assert_eq!(code, 0, "{number}");
        held.push(wire);
    }
    let third = Site::device(2);
    assert_eq!(site.connect(address, Protocol::V5, &third).await.0, 0x97);
    assert_eq!(site.connect(address, Protocol::V311, &third).await.0, 3);
    site.refuses("product_connections", 2.0).await;
    let shown = site.command(&["device", "show", "P", "d2"]);
    assert!(shown.contains("\tproduct_connections\t2\t"), "{shown}");
}

#[tokio::test]
async fn connects_have_a_rate() {
    let settings = [
        ("JETWAY_PROTECTION_SOURCE_CONNECTS_PER_S", "2"),
        ("JETWAY_PROTECTION_CONNECTS_PER_S", "1000"),
    ];
    let site = Site::start(20, &settings).await;
    for (protocol, code) in [(Protocol::V5, 0x9F), (Protocol::V311, 3)] {
        let from = format!("192.0.2.{code}");
        let mut codes = Vec::new();
        for number in 0..10 {
            let device = Site::device(number);
            codes.push(site.connect(&from, protocol, &device).await.0);
        }
        assert_eq!(codes[..2], [0, 0]);
        assert!(codes.contains(&code), "{codes:?}");
    }
    assert!(site.refused("connect_rate").await >= 2.0);
}

#[tokio::test]
async fn what_one_message_or_subscription_may_have() {
    let settings = [
        ("JETWAY_SESSION_TOPIC_LEVELS_MAX", "5"),
        ("JETWAY_SESSION_USER_PROPERTIES_MAX", "2"),
        ("JETWAY_SESSION_SUBSCRIPTIONS_MAX", "1"),
    ];
    let site = Site::start(2, &settings).await;
    for (number, protocol) in BOTH.into_iter().enumerate() {
        let who = Site::device(number);
        let mut device = Device::connect(protocol, site.gateway.mqtt(), &who).await;
        let (denied, filter, quota) = match protocol {
            // The only answers that 3.1.1 has; the message is acknowledged and dropped.
            Protocol::V311 => (0, 0x80, 0x80),
            Protocol::V5 => (0x90, 0x8F, 0x97),
        };
        let deep = format!("$thing/up/property/P/d{number}/x");
        assert_eq!(device.publish_acked(&deep, "{}").await, denied);
        assert_eq!(
            device.subscribe(&deep.replace("/up/", "/down/")).await,
            filter
        );
        assert_eq!(
            device
                .subscribe(&format!("$thing/down/property/P/d{number}"))
                .await,
            1
        );
        assert_eq!(
            device
                .subscribe(&format!("$thing/down/event/P/d{number}"))
                .await,
            quota
        );
        assert_eq!(device.publish_acked(&Site::topic(number), "{}").await, 0);
    }
    let mut device = Device::connect(Protocol::V5, site.gateway.mqtt(), &Site::device(1)).await;
    let mut publish = Publish::new(&Site::topic(1), "{}");
    let mut properties = publish.properties.take().unwrap_or_default();
    properties.user_properties = vec![("a".to_owned(), "b".to_owned()); 3];
    publish.properties = Some(properties);
    device.publish(publish);
    assert_eq!(device.acked().await.unwrap().reason, 0x97);
    assert_eq!(
        site.backend().await.count("DEVICE_UP").await,
        2,
        "the others are not stored"
    );
    // Publish: one each for depth, one for properties. Subscription: two each.
    assert_eq!(site.refused("publish").await, 3.0);
    assert_eq!(site.refused("subscription").await, 4.0);
    let (status, body) = site.gateway.get("/refusals/P/d1").await;
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&body).unwrap();
    let refusals = answer["nodes"][0]["refusals"].as_array().unwrap();
    let of = |reason: &str| {
        refusals
            .iter()
            .find(|refusal| refusal["reason"] == reason)
            .unwrap()
    };
    assert_eq!(of("publish")["count"], 2);
    assert_eq!(of("publish")["detail"], Site::topic(1));
    assert_eq!(of("subscription")["detail"], "quota exceeded");
    let (_, nobody) = site.gateway.get("/refusals/P/nobody").await;
    assert_eq!(nobody.trim(), r#"{"nodes":[]}"#);
}

#[tokio::test]
async fn a_device_that_breaks_the_protocol_or_sends_too_much_is_seen_to_have_done_so() {
    let site = Site::start(2, &[("JETWAY_SESSION_PACKET_BYTES_MAX", "2048")]).await;
    let address = site.gateway.mqtt();
    let mut wire = Wire::login(Protocol::V5, address, &Site::device(0), 60).await;
    let large = packet::publish(Protocol::V5, &Site::topic(0), Some(1), &[0; 4_096]);
    wire.send(&large).await;
    assert_eq!(wire.closed().await, packet::disconnect(0x95));
    let mut wire = Wire::login(Protocol::V311, address, &Site::device(1), 60).await;
    wire.send(&packet::connect(Protocol::V311, &Site::device(1), 60))
        .await;
    wire.closed().await;
    site.refuses("closed", 2.0).await;
    for (device, detail) in [
        ("d0", "packet_too_large: packet too large"),
        ("d1", "protocol_error: protocol error"),
    ] {
        let shown = site.command(&["device", "show", "P", device]);
        assert!(shown.contains("\tclosed\t1\t"), "{shown}");
        assert!(shown.trim_end().ends_with(detail), "{shown}");
    }
}
