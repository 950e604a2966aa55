//! What else goes on after nats-server was gone: live downlinks (G25) and status events (G-STATUS).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::Rig;
use super::support::{Device, Protocol, Stored, lasting};

#[tokio::test]
async fn downlinks_arrive_again_within_seconds_of_a_restart() {
    let mut rig = Rig::start(&[]).await;
    let devices = [
        (Protocol::V311, rig.devices[0].clone()),
        (Protocol::V5, rig.devices[1].clone()),
    ];
    let mut connected = Vec::new();
    for (protocol, who) in &devices {
        let mut device = Device::connect(*protocol, rig.gateway.mqtt(), &who.credentials).await;
        let filter = format!("$thing/down/property/{}/{}", who.product, who.name);
        assert_eq!(device.subscribe(&filter).await, 1);
        connected.push((
            device,
            format!("device.down.mqtt.thing.{}.{}", who.product, who.name),
        ));
    }
    for round in 0..3 {
        rig.nats.kill9().await;
        rig.nats.restart().await;
        let ready = Instant::now();
        let backend = rig.backend().await;
        for (device, subject) in &mut connected {
            // What is stored before the gateway listens again waits for stored sessions; the first that arrives ends this.
            let mut sent = 0;
            let first = loop {
                backend
                    .publish(subject, &[], format!("{round} {sent}"))
                    .await;
                sent += 1;
                tokio::select! {
                    received = device.next() => break received,
                    () = lasting(Duration::from_millis(100)) => {}
                }
            };
            println!("downlink: {} after {:.1?}", first.text(), ready.elapsed());
            assert!(
                ready.elapsed() < Duration::from_secs(5),
                "{:?}",
                ready.elapsed()
            );
            // From here on, every one arrives once and in order.
            let seen: usize = first.text().split(' ').nth(1).unwrap().parse().unwrap();
            for number in sent..sent + 20 {
                backend
                    .publish(subject, &[], format!("{round} {number}"))
                    .await;
            }
            for number in seen + 1..sent + 20 {
                assert_eq!(device.next().await.text(), format!("{round} {number}"));
            }
        }
    }
    assert!(rig.gateway.is_alive());
}

#[tokio::test]
async fn status_events_of_an_outage_appear_after_it_once_and_in_true_order() {
    const SESSIONS: usize = 5;
    let mut rig = Rig::start(&[]).await;
    let address = rig.gateway.mqtt();
    let others = rig.devices[1..4].to_vec();
    let who = rig.devices[0].clone();
    // Connected before, disconnected during: one that closes its socket and one that says goodbye.
    let dropped = Device::connect(Protocol::V5, address, &others[0].credentials).await;
    let goodbye = Device::connect(Protocol::V311, address, &others[1].credentials).await;

    rig.nats.kill9().await;
    drop(dropped);
    goodbye.disconnect().await;
    for _ in 0..SESSIONS {
        let device = Device::connect(Protocol::V5, address, &who.credentials).await;
        device.disconnect().await;
    }
    let first = Device::connect(Protocol::V311, address, &who.credentials).await;
    let second = Device::connect(Protocol::V5, address, &who.credentials).await;
    rig.nats.restart().await;
    let after = Device::connect(Protocol::V5, address, &others[2].credentials).await;

    let backend = rig.backend().await;
    // Two sessions before and during, one after, and each of the outage: opened and closed; the last two are still open.
    let expected = 2 * 2 + 2 * SESSIONS + 3 + 1;
    for stream in ["DEVICE_STATUS", "APPLICATION"] {
        let events = events(backend.wait_for(stream, ">", expected).await);
        assert_eq!(events.len(), expected, "{stream}: {events:#?}");
        let ids: HashSet<&str> = events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids.len(), expected, "{stream}: an event twice: {events:#?}");
        in_true_order(&events, &who.name, SESSIONS);
        for (other, reason) in [(&others[0], "socket_closed"), (&others[1], "normal")] {
            let story = story(&events, &other.name);
            assert_eq!(story, [("opened", ""), ("closed", reason)], "{stream}");
        }
    }
    drop((first, second, after));
}

/// Sessions one after the other, then one that is taken over and the one that took over.
fn in_true_order(events: &[Event], device: &str, sessions: usize) {
    let mut expected = [("opened", ""), ("closed", "normal")].repeat(sessions);
    expected.extend([("opened", ""), ("closed", "taken_over"), ("opened", "")]);
    assert_eq!(story(events, device), expected);
    let own: Vec<&Event> = events.iter().filter(|one| one.device == device).collect();
    for pair in own.windows(2) {
        let [one, next] = pair else { continue };
        match next.kind.as_str() {
            "closed" => assert_eq!((next.epoch, &next.connection), (one.epoch, &one.connection)),
            _ => assert!(next.epoch > one.epoch && next.connection != one.connection),
        }
    }
}

fn story<'a>(events: &'a [Event], device: &str) -> Vec<(&'a str, &'a str)> {
    let own = events.iter().filter(|event| event.device == device);
    own.map(|event| (event.kind.as_str(), event.reason.as_str()))
        .collect()
}

/// What this test looks at of a status event.
#[derive(Debug)]
struct Event {
    id: String,
    kind: String,
    device: String,
    connection: String,
    epoch: u64,
    reason: String,
}

fn events(messages: Vec<Stored>) -> Vec<Event> {
    let event = |message: &Stored| {
        let body: Value = serde_json::from_slice(&message.payload).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&body["event_name"]);
        Event {
            id: text(&body["event_id"]),
            kind: name.rsplit('.').next().unwrap_or_default().to_owned(),
            device: text(&body["data"]["device_name"]),
            connection: text(&body["data"]["connection_id"]),
            epoch: body["data"]["epoch"].as_u64().unwrap(),
            reason: text(&body["data"]["reason"]),
        }
    };
    messages.iter().map(event).collect()
}
