//! Downlinks and what a device can take: its Receive Maximum, its Maximum Packet Size, its reading.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use rumqttc::v5::mqttbytes::v5::ConnectProperties;
use tokio::time::Instant;

use crate::site::{BOTH, Registered, Site};
use crate::support::{Connect, Device, Protocol, Received, Wire, eventually, packet};

async fn listener(connect: Connect, who: &Registered) -> Device {
    let mut device = Device::connect_with(connect).await.unwrap();
    assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
    device
}

fn number(received: &Received) -> usize {
    received.text().parse().unwrap()
}

#[tokio::test]
async fn g39_a_device_gets_as_many_as_it_may_leave_unacknowledged_and_then_one_for_each_puback() {
    // [MQTT-3.3.4-9]. A 3.1.1 device cannot say how many; the gateway's own limit holds for it.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for (protocol, window) in BOTH.into_iter().zip([32, 3]) {
        let who = site.device();
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.manual_acks = true;
        if protocol == Protocol::V5 {
            let mut properties = ConnectProperties::new();
            properties.receive_maximum = Some(window);
            connect.properties = Some(properties);
        }
        let mut device = listener(connect, &who).await;
        let window = usize::from(window);
        let count = window * 3;
        for number in 0..count {
            backend
                .publish(
                    &who.subject("device.down.mqtt.thing"),
                    &[],
                    number.to_string(),
                )
                .await;
        }
        let mut unacknowledged = Vec::new();
        for expected in 0..window {
            let received = device.next().await;
            assert_eq!(number(&received), expected);
            unacknowledged.push(received);
        }
        for expected in window..count {
            // Whatever was to come before this PUBACK has come by then.
            assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
            assert_eq!(
                device.waiting(),
                0,
                "{protocol:?}: more than {window} unacknowledged"
            );
            device.ack(&unacknowledged.remove(0));
            let received = device.next().await;
            assert_eq!(number(&received), expected);
            unacknowledged.push(received);
        }
        // A packet id is not used again while it is in use.
        let mut identifiers: Vec<u16> = unacknowledged.iter().map(|r| r.packet_id).collect();
        identifiers.sort_unstable();
        identifiers.dedup();
        assert_eq!(identifiers.len(), window);
    }
}

#[tokio::test]
async fn downlinks_that_a_device_did_not_acknowledge_are_counted_when_it_leaves() {
    let site = Site::start(&[]).await;
    let backend = site.backend().await;
    let count = "jetway_downlink_messages_total{outcome=\"unacknowledged\"}";
    for (round, protocol) in BOTH.into_iter().enumerate() {
        let who = site.device();
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.manual_acks = true;
        let mut device = listener(connect, &who).await;
        // More than the window: the rest waits in the mailbox.
        for number in 0..40 {
            let subject = who.subject("device.down.mqtt.thing");
            backend.publish(&subject, &[], number.to_string()).await;
        }
        let first = device.next().await;
        device.ack(&first);
        for _ in 1..=32 {
            device.next().await;
        }
        let handed = "jetway_downlink_messages_total{outcome=\"handed\"}";
        site.counted(
            handed,
            40.0 * f64::from(u32::try_from(round).unwrap()) + 39.0,
        )
        .await;
        device.disconnect().await;
        site.counted(
            count,
            39.0 * f64::from(u32::try_from(round).unwrap()) + 38.0,
        )
        .await;
    }
}

#[tokio::test]
async fn g39_a_downlink_above_the_devices_packet_size_is_skipped_and_the_next_delivered() {
    // [MQTT-3.1.2-24], [MQTT-3.1.2-25]. rumqttc ends the connection when it gets more than it asked for.
    let site = Site::shared().await;
    let backend = site.backend().await;
    let count = "jetway_downlink_messages_total{outcome=\"too_large\"}";
    let who = site.device();
    let mut connect = Connect::new(Protocol::V5, site.gateway.mqtt(), &who.credentials);
    let mut properties = ConnectProperties::new();
    properties.max_packet_size = Some(300);
    connect.properties = Some(properties);
    let mut device = listener(connect, &who).await;
    let subject = who.subject("device.down.mqtt.thing");
    let before = site.gateway.metric(count).await;
    backend.publish(&subject, &[], vec![b'x'; 300]).await;
    let long = "x".repeat(300);
    backend
        .publish(&subject, &[("Jw-User-long", &long)], "properties count too")
        .await;
    backend.publish(&subject, &[], vec![b'y'; 200]).await;
    assert_eq!(device.next().await.payload, vec![b'y'; 200]);
    site.counted(count, before + 1.0).await;
}

#[tokio::test]
async fn a_thousand_downlinks_reach_each_of_twenty_devices_in_order() {
    // G-DOWN
    const COUNT: usize = 1_000;
    const AHEAD: usize = 200;
    let site = Site::shared().await;
    let backend = site.backend().await;
    let devices = (0..20).map(async |index| {
        let who = site.device();
        let connect = Connect::new(BOTH[index % 2], site.gateway.mqtt(), &who.credentials);
        let mut device = listener(connect, &who).await;
        let subject = who.subject("device.down.mqtt.thing");
        let mut received = 0;
        for start in (0..COUNT).step_by(AHEAD) {
            let mut stored = Vec::new();
            for number in start..start + AHEAD {
                let publish = backend
                    .jetstream
                    .publish(subject.clone(), number.to_string().into());
                stored.push(publish.await.unwrap());
            }
            while received < start + AHEAD {
                let next = device.next().await;
                assert_eq!((number(&next), next.dup), (received, false), "{}", who.name);
                received += 1;
            }
            for stored in stored {
                stored.await.unwrap();
            }
        }
        assert_eq!(device.waiting(), 0);
    });
    join_all(devices).await;
}

#[tokio::test]
async fn g04_a_device_that_stops_reading_is_cut_off_and_delays_nobody() {
    let site = Site::start(&[("JETWAY_CONNECTION_WRITE_TIMEOUT_MS", "10000")]).await;
    let backend = site.backend().await;
    let neighbour_is = site.device();
    let connect = Connect::new(
        Protocol::V311,
        site.gateway.mqtt(),
        &neighbour_is.credentials,
    );
    let mut neighbour = listener(connect, &neighbour_is).await;
    for protocol in BOTH {
        let who = site.device();
        let address = site.gateway.mqtt();
        let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
        let filter = who.topic("$thing/down/+");
        wire.send(&packet::subscribe(protocol, 1, &[(&filter, 1)]))
            .await;
        wire.packet().await.expect("SUBACK");

        let count = "jetway_disconnects_total{reason=\"write_timeout\"}";
        let before = site.gateway.metric(count).await;
        // More than the buffers of two sockets hold, however much of it is dropped; nothing of it waits for a PUBACK.
        let subject = who.subject("device.down.mqtt.thing");
        let large = Bytes::from(vec![0; 256 * 1024]);
        let mut slowest = Duration::ZERO;
        eventually("the device is cut off", async || {
            backend
                .publish(&subject, &[("Jw-Qos", "0")], large.clone())
                .await;
            let asked = Instant::now();
            let to_neighbour = neighbour_is.subject("device.down.mqtt.thing");
            backend.publish(&to_neighbour, &[], "quick").await;
            assert_eq!(neighbour.next().await.text(), "quick");
            slowest = slowest.max(asked.elapsed());
            match site.gateway.metric(count).await > before {
                true => Ok(()),
                false => Err("it is not".to_owned()),
            }
        })
        .await;
        assert!(
            slowest < Duration::from_secs(8),
            "the neighbour waited {slowest:?}"
        );
        let events = who.subject("application.device") + ".status.disconnected";
        let closed = backend.wait_for("APPLICATION", &events, 1).await;
        let event = closed[0].text();
        assert!(event.contains(r#""reason":"write_timeout""#), "{event}");
        drop(wire);
    }
}
