//! Devices that send more than they may: they are held back and lose nothing, and their neighbours do not notice.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use crate::site::Site;
use crate::support::{Device, Protocol, Publish, Wire, packet};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

async fn login(site: &Site, protocol: Protocol, number: usize) -> Wire {
    Wire::login(protocol, site.gateway.mqtt(), &Site::device(number), 60).await
}

fn publishes(protocol: Protocol, number: usize, ids: std::ops::Range<u16>) -> Vec<u8> {
    let publish = |id| packet::publish(protocol, &Site::topic(number), Some(id), b"{}");
    ids.flat_map(publish).collect()
}

#[tokio::test]
async fn what_is_above_the_quota_waits_in_order_and_pings_are_answered() {
    let products = "{ device_messages_per_s = 20 }";
    let site = Site::start(2, &[("JETWAY_PROTECTION_PRODUCTS", products)]).await;
    for (number, protocol) in BOTH.into_iter().enumerate() {
        let mut wire = login(&site, protocol, number).await;
        let begun = Instant::now();
        wire.send(&publishes(protocol, number, 1..61)).await;
        let before = wire.ping().await.len();
        assert!(
            before <= 25,
            "the answer waits for nothing: {before} before it"
        );
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "{:?}",
            begun.elapsed()
        );
        for id in before + 1..=60 {
            let puback = wire.packet().await.expect("it stays connected");
            assert_eq!(puback[0], 0x40);
            assert_eq!(usize::from(u16::from_be_bytes([puback[2], puback[3]])), id);
        }
        // 20 at once, 40 in two seconds.
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(1_900), "{took:?}");
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    assert_eq!(site.refused("device_rate").await, 80.0, "each is held once");
    let shown = site.command(&["device", "show", "P", "d0"]);
    assert!(shown.contains("\tdevice_rate\t40\t"), "{shown}");
    let backend = site.backend().await;
    assert_eq!(backend.count("DEVICE_UP").await, 120);
}

#[tokio::test]
async fn bytes_count_as_messages_do_and_those_of_a_product_together() {
    let products = "{ device_bytes_per_s = 10_000, messages_per_s = 10 }";
    let site = Site::start(3, &[("JETWAY_PROTECTION_PRODUCTS", products)]).await;
    let protocol = Protocol::V5;
    let mut large = login(&site, protocol, 0).await;
    let begun = Instant::now();
    let payload = vec![b' '; 25_000];
    for id in [1, 2] {
        let publish = packet::publish(protocol, &Site::topic(0), Some(id), &payload);
        large.send(&publish).await;
    }
    for _ in 0..2 {
        assert_eq!(large.packet().await.unwrap()[0], 0x40);
    }
    // The first one passes, larger than all that may come at once; the second one waits for what it took.
    assert!(
        begun.elapsed() > Duration::from_millis(1_400),
        "{:?}",
        begun.elapsed()
    );
    let mut others = [
        login(&site, protocol, 1).await,
        login(&site, protocol, 2).await,
    ];
    let begun = Instant::now();
    for (number, wire) in others.iter_mut().enumerate() {
        wire.send(&publishes(protocol, number + 1, 1..11)).await;
    }
    for wire in &mut others {
        for _ in 0..10 {
            assert_eq!(wire.packet().await.unwrap()[0], 0x40);
        }
    }
    assert!(
        begun.elapsed() > Duration::from_millis(900),
        "{:?}",
        begun.elapsed()
    );
    assert!(site.refused("device_rate").await >= 1.0);
    assert!(site.refused("product_rate").await >= 10.0);
}

#[tokio::test]
async fn qos_0_above_the_quota_is_dropped_only_when_the_room_for_it_is_full() {
    let products = "{ device_messages_per_s = 10 }";
    let settings = [
        ("JETWAY_PROTECTION_PRODUCTS", products),
        ("JETWAY_CONNECTION_READ_AHEAD_BYTES_MAX", "4096"),
    ];
    let site = Site::start(1, &settings).await;
    let mut wire = login(&site, Protocol::V311, 0).await;
    let publish = packet::publish(Protocol::V311, &Site::topic(0), None, &[b' '; 1_000]);
    for _ in 0..1_000 {
        wire.send(&publish).await;
    }
    assert!(wire.ping().await.is_empty(), "it is still heard");
    site.refuses("shed", 900.0).await;
    // What is not shed is stored, sooner or later.
    let backend = site.backend().await;
    backend.wait_for("DEVICE_UP", "device.up.>", 10).await;
    let stored = backend.count("DEVICE_UP").await;
    assert!(stored < 100, "{stored}");
}

/// 99 of 100 answers of devices that send a message each 50 ms, for a while.
async fn p99(site: &Site, devices: std::ops::Range<usize>, time: Duration) -> Duration {
    let begun = Instant::now();
    let times = join_all(devices.map(async |number| {
        let who = Site::device(number);
        let mut device = Device::connect(Protocol::V5, site.gateway.mqtt(), &who).await;
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let mut times = Vec::new();
        while begun.elapsed() < time {
            pace.tick().await;
            let sent = Instant::now();
            let reason = device.publish_acked(&Site::topic(number), "{}").await;
            assert_eq!(reason, 0);
            times.push(sent.elapsed());
        }
        times
    }))
    .await;
    let mut times = times.concat();
    times.sort();
    times[times.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_at_50_times_the_quota_is_not_felt_by_neighbours() {
    const QUOTA: u64 = 40;
    let products = format!("{{ device_messages_per_s = {QUOTA} }}");
    let site = Site::start(21, &[("JETWAY_PROTECTION_PRODUCTS", &products)]).await;
    let time = Duration::from_secs(4);
    let calm = p99(&site, 1..21, time).await;
    let mut flood = JoinSet::new();
    let address = site.gateway.mqtt();
    flood.spawn(async move {
        let who = Site::device(0);
        let mut device = Device::connect(Protocol::V5, address, &who).await;
        // 50 times the quota: what a tick of 50 ms has of it.
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let mut sent = 0;
        loop {
            tokio::select! {
                _ = pace.tick() => {
                    for _ in 0..50 * QUOTA / 20 {
                        device.publish(Publish { qos: 0, ..Publish::new(&Site::topic(0), "{}") });
                        sent += 1;
                    }
                }
                step = device.step() => step.unwrap(),
            }
            if sent > 1_000_000 {
                return;
            }
        }
    });
    let flooded = p99(&site, 1..21, time).await;
    println!("p99 of neighbours: {calm:?} alone, {flooded:?} beside a flood");
    // Below a few milliseconds it is the scheduler of a shared machine that is measured.
    let floor = Duration::from_millis(10);
    assert!(flooded <= 2 * calm.max(floor), "{calm:?}, {flooded:?}");
    flood.abort_all();
    let stored = site.backend().await;
    let stored = stored
        .messages("DEVICE_UP", "device.up.mqtt.thing.P.d0")
        .await
        .len() as u64;
    let allowed = QUOTA * (time.as_secs() + 3);
    assert!((QUOTA..allowed).contains(&stored), "{stored}");
    assert!(site.refused("shed").await + site.refused("device_rate").await > QUOTA as f64);
}

#[tokio::test]
async fn a_device_has_a_quota_of_its_own_product() {
    let settings = [
        (
            "JETWAY_PROTECTION_PRODUCTS",
            "{ device_messages_per_s = 1 }",
        ),
        ("JETWAY_PROTECTION_PRODUCT", "{ P = {} }"),
    ];
    let site = Site::start(1, &settings).await;
    let mut wire = login(&site, Protocol::V5, 0).await;
    wire.send(&publishes(Protocol::V5, 0, 1..101)).await;
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(wire.packet().await.unwrap()[0], 0x40);
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}
