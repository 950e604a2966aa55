//! What waits for a device is bounded in number, bytes and age, also for one that never comes back; what falls out is reported once.

use crate::offline::{forgotten, stored, subscribe_and_leave, waiting};
use crate::site::{BOTH, Site};
use crate::support::{Backend, Device, Protocol, Stored, eventually};

/// Texts and reasons of a device's dead letters, in order of the texts.
async fn dead(backend: &Backend, filter: &str, count: usize) -> Vec<(String, String)> {
    let dead = backend.wait_for("DLQ", filter, count).await;
    let of = |dead: &Stored| {
        let text = dead.text().get(..1).unwrap_or_default();
        (text.to_owned(), dead.header("Jw-Reason").to_owned())
    };
    let mut dead: Vec<_> = dead.iter().map(of).collect();
    dead.sort();
    dead
}

#[tokio::test]
async fn g31_lifetimes_end_also_for_devices_that_never_come_back() {
    // G-DOWN, G30
    let site = Site::start(&[("JETWAY_DOWNLINK_LIFETIME_MAX_S", "4")]).await;
    let backend = site.backend().await;
    let mut devices = Vec::new();
    for protocol in BOTH {
        let (left, never_was) = (site.device(), site.device());
        subscribe_and_leave(stored(&site, protocol, &left), &left, 1).await;
        devices.extend([left, never_was]);
    }
    let mut receipts = backend.subscribe("receipts").await;
    let soon = (jetway::telemetry::now_unix_ms() + 1_000).to_string();
    for who in &devices {
        let subject = who.subject("device.down.mqtt.thing");
        for (text, lifetime) in [
            ("1", ("Nats-TTL", "2")),
            ("2", ("Jw-Expires", &*soon)),
            ("3", ("Other", "")),
        ] {
            let headers = [lifetime, ("Jw-Receipt", "receipts")];
            backend.publish(&subject, &headers, text).await;
        }
    }
    for who in &devices {
        let expired = |text: &str| (text.to_owned(), "expired".to_owned());
        let found = dead(&backend, &who.subject("dlq.downlink"), 3).await;
        assert_eq!(found, ["1", "2", "3"].map(expired), "{}", who.name);
        forgotten(&backend, who).await;
    }
    for _ in 0..devices.len() * 3 {
        let receipt = backend.next(&mut receipts).await;
        let receipt: serde_json::Value = serde_json::from_slice(&receipt.payload).unwrap();
        assert_eq!(receipt["receipt"], "expired");
    }
    // Whoever looks after lifetimes may meet a message again before it is removed; its dead letter is there once.
    let expired = "jetway_downlink_messages_total{outcome=\"expired\"}";
    let expired = site.gateway.metric(expired).await;
    assert!(expired >= devices.len() as f64 * 3.0, "{expired}");
}

#[tokio::test]
async fn g31_who_takes_over_watching_finds_the_lifetimes_that_others_watched() {
    // The first gateway dies with what it knew.
    let mut site = Site::start(&[]).await;
    let backend = site.backend().await;
    let who = site.device();
    subscribe_and_leave(stored(&site, Protocol::V5, &who), &who, 1).await;
    let later = (jetway::telemetry::now_unix_ms() + 4_000).to_string();
    let subject = who.subject("device.down.mqtt.thing");
    backend
        .publish(&subject, &[("Jw-Expires", &later)], "1")
        .await;
    site.gateway.kill9().await;
    let _second = site.further_gateway().await;
    let found = dead(&backend, &who.subject("dlq.downlink"), 1).await;
    assert_eq!(found, [("1".to_owned(), "expired".to_owned())]);
    forgotten(&backend, &who).await;
}

#[tokio::test]
async fn g30_of_more_bytes_than_may_wait_the_oldest_are_given_up() {
    const BYTES_MAX: usize = 4 * 1024 * 1024;
    const COUNT: usize = 600;
    const BYTES: usize = 9_000;
    let bytes_max = BYTES_MAX.to_string();
    let site = Site::start(&[("JETWAY_DOWNLINK_QUEUE_BYTES_MAX", &bytes_max)]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let connect = stored(&site, protocol, &who);
        subscribe_and_leave(connect.clone(), &who, 1).await;
        let subject = who.subject("device.down.mqtt.thing");
        for number in 0..COUNT {
            let text = format!("{number:0>BYTES$}");
            backend.publish(&subject, &[], text).await;
        }
        let mut device = Device::connect_with(connect).await.unwrap();
        let mut numbers = vec![device.next().await.text().parse::<usize>().unwrap()];
        let given_up = numbers[0];
        while numbers.last() < Some(&(COUNT - 1)) {
            numbers.push(device.next().await.text().parse().unwrap());
        }
        assert!(numbers.iter().copied().eq(given_up..COUNT), "{numbers:?}");
        // What is counted beside the payload is less than the payload of twenty.
        let bytes = numbers.len() * BYTES;
        assert!(
            (BYTES_MAX - 20 * BYTES..=BYTES_MAX).contains(&bytes),
            "{bytes}"
        );
        let filter = who.subject("dlq.downlink");
        let dead = backend.wait_for("DLQ", &filter, given_up).await;
        assert!(
            dead.iter()
                .all(|dead| dead.header("Jw-Reason") == "overflow")
        );
        let mut dead: Vec<usize> = dead
            .iter()
            .map(|dead| dead.text().parse().unwrap())
            .collect();
        dead.sort_unstable();
        assert!(dead.into_iter().eq(0..given_up));
        device.disconnect().await;
        forgotten(&backend, &who).await;
    }
}

#[tokio::test]
async fn g30_of_more_messages_than_may_wait_the_sender_is_refused_the_next() {
    const MAX: usize = 10_000;
    const MAXIMUM_MESSAGES_PER_SUBJECT: &str = "10077";
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let connect = stored(&site, Protocol::V311, &who);
    subscribe_and_leave(connect.clone(), &who, 1).await;
    let subject = who.subject("device.down.thing");
    for _ in 0..MAX / 500 {
        let mut acks = Vec::new();
        for _ in 0..500 {
            let publish = backend.jetstream.publish(subject.clone(), "x".into());
            acks.push(publish.await.unwrap());
        }
        for ack in acks {
            ack.await.unwrap();
        }
    }
    let refused = backend.request(&subject, "one too many").await;
    let refused = String::from_utf8_lossy(&refused.payload).into_owned();
    assert!(refused.contains(MAXIMUM_MESSAGES_PER_SUBJECT), "{refused}");
    let mut device = Device::connect_with(connect).await.unwrap();
    for _ in 0..MAX {
        assert_eq!(device.next().await.text(), "x");
    }
    device.disconnect().await;
    eventually("there is room again", async || {
        match waiting(&backend, &who.subject("device.down.mqtt.*")).await {
            left if left < 100 => Ok(()),
            left => Err(format!("{left} left")),
        }
    })
    .await;
    backend.publish(&subject, &[], "room").await;
}
