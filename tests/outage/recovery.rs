//! What else goes on after nats-server was gone: live downlinks (G25) and status events (G-STATUS).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::{Rig, returned, topic};
use super::support::{Connect, DemoDevice, Device, Protocol, Stored, lasting};

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
            // All that the first device is sent lies in the time of the second one.
            assert!(
                ready.elapsed() < Duration::from_secs(15),
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
    let devices = rig.devices.clone();
    let [stays, drops, leaves, comes, ..] = devices.as_slice() else {
        panic!("four devices");
    };
    let mut stayed = Device::connect(Protocol::V5, address, &stays.credentials).await;
    let dropped = Device::connect(Protocol::V5, address, &drops.credentials).await;
    let left = Device::connect(Protocol::V311, address, &leaves.credentials).await;

    rig.nats.kill9().await;
    // Until then a login that cannot be completed has the earlier connection leave.
    rig.gateway.until_not_ready("NATS is not connected").await;
    drop(dropped);
    left.disconnect().await;
    // A session must be known to be nobody else's before it begins; who waits is told before its patience ends (G24).
    let (refused_v5, refused_v311, not_over_yet) = tokio::join!(
        refusal(Protocol::V5, address, comes),
        refusal(Protocol::V311, address, stays),
        refusal(Protocol::V5, address, drops),
    );
    assert_eq!([refused_v5, not_over_yet], [0x88; 2]);
    assert_eq!(refused_v311, 3);
    rig.nats.restart().await;
    // Who is connected stays so, also while somebody with its credentials is refused.
    assert_eq!(stayed.publish_acked(&topic(stays), "here").await, 0);
    let again = returned(Protocol::V5, address, drops).await;
    let came = returned(Protocol::V5, address, comes).await;
    for _ in 0..SESSIONS {
        let device = returned(Protocol::V5, address, stays).await;
        device.disconnect().await;
    }
    let first = Device::connect(Protocol::V311, address, &stays.credentials).await;
    let second = Device::connect(Protocol::V5, address, &stays.credentials).await;

    let backend = rig.backend().await;
    let mut of_stays = vec![("opened", ""), ("closed", "taken_over")];
    of_stays.extend([("opened", ""), ("closed", "normal")].repeat(SESSIONS));
    of_stays.extend([("opened", ""), ("closed", "taken_over"), ("opened", "")]);
    let of_drops = vec![("opened", ""), ("closed", "socket_closed"), ("opened", "")];
    let of_leaves = vec![("opened", ""), ("closed", "normal")];
    let stories = [
        (stays, of_stays),
        (drops, of_drops),
        (leaves, of_leaves),
        (comes, vec![("opened", "")]),
    ];
    let expected = stories.iter().map(|(_, story)| story.len()).sum();
    for stream in ["DEVICE_STATUS", "APPLICATION"] {
        let events = events(backend.wait_for(stream, ">", expected).await);
        assert_eq!(events.len(), expected, "{stream}: {events:#?}");
        let ids: HashSet<&str> = events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids.len(), expected, "{stream}: an event twice: {events:#?}");
        for (device, expected) in &stories {
            assert_eq!(story(&events, &device.name), *expected, "{stream}");
            epochs_rise(&events, &device.name);
        }
    }
    drop((stayed, again, came, first, second));
}

/// The code with which the device is not let in.
async fn refusal(protocol: Protocol, address: SocketAddr, who: &DemoDevice) -> u8 {
    let connect = Connect::new(protocol, address, &who.credentials);
    match Device::connect_with(connect).await {
        Ok(_) => panic!("{} is let in", who.name),
        Err(refused) => refused.reason.expect("a CONNACK"),
    }
}

/// Both events of a connection have its epoch, and the next connection's is higher.
fn epochs_rise(events: &[Event], device: &str) {
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
