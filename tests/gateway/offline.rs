//! G-DOWN for devices that are away: what is stored for them comes when they are back, in order, and what does not come is
//! reported.

use std::time::Duration;

use rumqttc::v5::mqttbytes::v5::ConnectProperties;

use crate::events::events;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Connect, Device, Protocol, Received, eventually};

/// A device whose session outlives its connections.
pub(crate) fn stored(site: &Site, protocol: Protocol, who: &Registered) -> Connect {
    let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
    connect.clean = false;
    if protocol == Protocol::V5 {
        let mut properties = ConnectProperties::new();
        properties.session_expiry_interval = Some(3_600);
        connect.properties = Some(properties);
    }
    connect
}

/// Makes the session: connects, subscribes, leaves.
pub(crate) async fn subscribe_and_leave(connect: Connect, who: &Registered, qos: u8) {
    let mut device = Device::connect_with(connect).await.unwrap();
    let filter = who.topic("$thing/down/+");
    assert_eq!(device.subscribe_qos(&filter, qos).await, qos);
    device.disconnect().await;
}

async fn send(backend: &Backend, who: &Registered, texts: std::ops::Range<u32>) {
    let subject = who.subject("device.down.mqtt.thing");
    for text in texts {
        backend.publish(&subject, &[], text.to_string()).await;
    }
}

async fn texts(device: &mut Device, count: usize) -> Vec<Received> {
    let mut received = Vec::with_capacity(count);
    while received.len() < count {
        received.push(device.next().await);
    }
    received
}

/// Waits until nothing is stored for the device any more.
pub(crate) async fn forgotten(backend: &Backend, who: &Registered) {
    let filter = who.subject("device.down.mqtt.*");
    eventually("delivered downlinks are gone", async || {
        match waiting(backend, &filter).await {
            0 => Ok(()),
            left => Err(format!("{left} left")),
        }
    })
    .await;
}

/// How many messages are stored under a subject filter, also while some of them vanish.
pub(crate) async fn waiting(backend: &Backend, filter: &str) -> u64 {
    let query = format!("{{\"subjects_filter\":\"{filter}\"}}");
    let info = backend
        .request("$JS.API.STREAM.INFO.DEVICE_DOWN", query)
        .await;
    let info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap();
    let subjects = info["state"]["subjects"].as_object();
    let counts = subjects.into_iter().flat_map(|subjects| subjects.values());
    counts.filter_map(serde_json::Value::as_u64).sum()
}

#[tokio::test]
async fn g07_what_was_stored_while_a_device_was_away_comes_in_order_when_it_is_back() {
    // G-DOWN, G30
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let connect = stored(&site, protocol, &who);
        subscribe_and_leave(connect.clone(), &who, 1).await;
        // More than a page, and than the window.
        send(&backend, &who, 0..600).await;
        let mut device = Device::connect_with(connect).await.unwrap();
        assert!(device.session_present);
        send(&backend, &who, 600..610).await;
        for (expected, received) in texts(&mut device, 610).await.iter().enumerate() {
            assert_eq!(received.text(), expected.to_string(), "{protocol:?}");
            assert_eq!((received.qos, received.dup), (1, false));
        }
        forgotten(&backend, &who).await;
        device.disconnect().await;
    }
}

#[tokio::test]
async fn g07_unacknowledged_downlinks_come_first_with_dup_and_the_same_packet_ids() {
    // [MQTT-4.4.0-1]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = stored(&site, protocol, &who);
        connect.manual_acks = true;
        subscribe_and_leave(connect.clone(), &who, 1).await;
        send(&backend, &who, 0..10).await;
        let mut device = Device::connect_with(connect.clone()).await.unwrap();
        let first = texts(&mut device, 10).await;
        device.ack(&first[0]);
        device.ack(&first[1]);
        // Answered behind the PUBACKs.
        assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
        drop(device);
        // Until its end is noticed, more is sent to it, and would be sent again.
        events(&backend, &who, 4).await;
        send(&backend, &who, 10..13).await;
        let mut device = Device::connect_with(connect).await.unwrap();
        assert!(device.session_present);
        let again = texts(&mut device, 11).await;
        for (expected, received) in first[2..].iter().zip(&again) {
            assert_eq!(received.text(), expected.text(), "{protocol:?}");
            assert_eq!(received.packet_id, expected.packet_id);
            assert!(received.dup);
        }
        for (expected, received) in (10..).zip(&again[8..]) {
            assert_eq!(received.text(), expected.to_string(), "{protocol:?}");
            assert!(!received.dup);
        }
        again.iter().for_each(|received| device.ack(received));
        assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
        forgotten(&backend, &who).await;
        device.disconnect().await;
    }
}

#[tokio::test]
async fn g31_an_explicit_lifetime_ends_also_for_a_device_that_is_away() {
    // G-DOWN, G30
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let connect = stored(&site, protocol, &who);
        subscribe_and_leave(connect.clone(), &who, 1).await;
        let subject = who.subject("device.down.mqtt.thing");
        let soon = (jetway::telemetry::now_unix_ms() + 500).to_string();
        let receipts = format!("receipts.{}", who.name);
        let mut reported = backend.subscribe(&receipts).await;
        let expires = [("Jw-Expires", &*soon), ("Jw-Receipt", &receipts)];
        backend.publish(&subject, &expires, "too late").await;
        backend
            .publish(&subject, &[("Nats-TTL", "600")], "in time")
            .await;
        tokio::time::timeout(Duration::from_secs(5), async {
            while jetway::telemetry::now_unix_ms().to_string() <= soon {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let mut device = Device::connect_with(connect).await.unwrap();
        assert_eq!(device.next().await.text(), "in time");
        let receipt = backend.next(&mut reported).await;
        let receipt: serde_json::Value = serde_json::from_slice(&receipt.payload).unwrap();
        assert_eq!(receipt["receipt"], "expired", "{receipt}");
        let filter = who.subject("dlq.downlink");
        let dead = backend.wait_for("DLQ", &filter, 1).await;
        assert_eq!(dead.len(), 1);
        assert_eq!(
            (dead[0].text(), dead[0].header("Jw-Reason")),
            ("too late", "expired")
        );
        forgotten(&backend, &who).await;
        device.disconnect().await;
    }
}
