//! All devices come at once, to a gateway that knows none of them, then again when they are cut off, and again while their
//! last connections still stand: everybody is let in, who is connected goes on, and memory is what the connections need.

use std::collections::HashMap;

use futures_util::future::join_all;

use crate::site::Site;
use crate::support::{DemoDevice, Device, Gateway, Protocol, Wire, eventually};

/// So many that what the allocator keeps for its threads is little for each (some 300 KB in all).
const DEVICES: usize = 1_600;
const HEAP: &str = "jetway_process_heap_bytes";
/// Of one idle connection.
const CONNECTION_BYTES_MAX: f64 = 3.0 * 1024.0;
/// Of one that is just being made, beside it.
const LOGIN_BYTES_MAX: f64 = 24.0 * 1024.0;

/// All at once, the last one first, so that they are not let in in the order in which they were cut off.
async fn storm(gateway: &Gateway, devices: &[DemoDevice]) -> Vec<Wire> {
    let login = |device: &DemoDevice| {
        let credentials = device.credentials.clone();
        async move { Wire::login(Protocol::V311, gateway.mqtt(), &credentials, 0).await }
    };
    join_all(devices.iter().rev().map(login)).await
}

/// Publishes over and over until `storms` end; how many were acknowledged.
async fn publish_while<T>(
    device: &mut Device,
    topic: &str,
    storms: impl Future<Output = T>,
) -> (u64, T) {
    let mut storms = std::pin::pin!(storms);
    let mut acked = 0;
    loop {
        tokio::select! {
            biased;
            _ = device.publish_acked(topic, "still here") => acked += 1,
            storms = &mut storms => return (acked, storms),
        }
    }
}

/// Follows the heap until `storms` end; the most that was seen.
async fn watch_heap<T>(gateway: &Gateway, storms: impl Future<Output = T>) -> (f64, T) {
    let mut storms = std::pin::pin!(storms);
    let mut most: f64 = 0.0;
    loop {
        tokio::select! {
            biased;
            storms = &mut storms => return (most, storms),
            heap = gateway.metric(HEAP) => most = most.max(heap),
        }
    }
}

#[tokio::test]
async fn g15_a_storm_lets_everybody_in_and_stops_nobody() {
    // G24, G28
    let site = Site::start(&[
        ("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", "60000"),
        ("JETWAY_AUTH_LOOKUP_TIMEOUT_MS", "30000"),
    ])
    .await;
    let gateway = &site.gateway;
    let devices = gateway.add_devices("storm", DEVICES);
    let who = site.device();
    let mut staying = site.connect(Protocol::V311, &who).await;
    let topic = who.topic("$thing/up/property");
    let before = gateway.metric(HEAP).await;
    let storms = async {
        let cold = storm(gateway, &devices).await;
        drop(cold);
        let cut_off = storm(gateway, &devices).await;
        let taken_over = storm(gateway, &devices).await;
        (cut_off, taken_over)
    };
    let storms = watch_heap(gateway, storms);
    let (acked, (most, (cut_off, taken_over))) = publish_while(&mut staying, &topic, storms).await;
    assert!(acked > 3, "{acked} messages were acknowledged meanwhile");
    for mut wire in cut_off {
        assert!(wire.closed().await.is_empty());
    }
    let misses = gateway.metric("jetway_auth_cache_misses_total").await;
    assert!(misses <= DEVICES as f64 + 1.0, "{misses}");
    let peak = (most - before) / DEVICES as f64;
    assert!(
        peak <= 2.0 * (CONNECTION_BYTES_MAX + LOGIN_BYTES_MAX),
        "{peak} bytes a connection"
    );

    // Whose connection was cut off or taken over is connected again, and said so last.
    let backend = site.backend().await;
    let filter = "application.device.demo.*.status.*";
    let events = backend.wait_for("APPLICATION", filter, 5 * DEVICES).await;
    assert_eq!(events.len(), 5 * DEVICES);
    let last: HashMap<&str, &str> = events
        .iter()
        .filter_map(|event| event.subject.rsplit_once('.'))
        .collect();
    assert_eq!(last.len(), DEVICES);
    assert!(
        last.values().all(|presence| *presence == "connected"),
        "{last:?}"
    );

    // What connections need is what goes with them.
    let connected = gateway.metric(HEAP).await;
    drop(taken_over);
    let gone = 6 * DEVICES;
    backend.wait_for("APPLICATION", filter, gone).await;
    let all = || gateway.metric("jetway_connections");
    eventually("only the device that stays is there", async || {
        match all().await {
            1.0 => Ok(()),
            more => Err(format!("{more}")),
        }
    })
    .await;
    let each = (connected - gateway.metric(HEAP).await) / DEVICES as f64;
    assert!(
        (512.0..CONNECTION_BYTES_MAX).contains(&each),
        "{each} bytes a connection"
    );
}
