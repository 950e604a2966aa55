//! What one device or a standing connection must not cost the others: G-ISOLATE, and the limits of G-BOUND and G27.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use serde_json::Value;

use super::rig::{Rig, topic};
use super::support::{Device, Protocol, Publish, Wire, eventually, lasting, packet};

/// QoS 1 in flight that the gateway allows a device.
const WINDOW: u16 = 128;

#[tokio::test]
async fn a_message_that_the_server_would_not_take_is_refused_and_stops_nobody() {
    let rig = Rig::start(&[]).await;
    let device = async |index: usize| {
        let credentials = &rig.devices[index].credentials;
        Device::connect(Protocol::V5, rig.gateway.mqtt(), credentials).await
    };
    let mut large = device(0).await;
    // Within the packet limit; but a user property takes twice as much of a NATS header as of an MQTT packet.
    let properties = PublishProperties {
        user_properties: vec![("a".to_owned(), "b".to_owned()); 4_000],
        ..PublishProperties::default()
    };
    let connack = large.connack_properties.as_ref().unwrap();
    let packet_bytes_max = connack.max_packet_size.unwrap() as usize;
    let publish = Publish {
        properties: Some(properties),
        ..Publish::new(
            &topic(&rig.devices[0]),
            vec![b'x'; packet_bytes_max - 4_000 * 7 - 200],
        )
    };
    let mut others = Vec::new();
    for index in 1..10 {
        others.push((index, device(index).await));
    }
    let started = Instant::now();
    for _ in 0..3 {
        large.publish(publish.clone());
    }
    let refused = async {
        for _ in 0..3 {
            assert_eq!(large.acked().await.unwrap().reason, 0x97); // [MQTT-3.4.2-1]
        }
    };
    let healthy = async {
        for (index, device) in &mut others {
            for number in 0..20 {
                let text = format!("healthy 0 {number} ");
                assert_eq!(
                    device
                        .publish_acked(&topic(&rig.devices[*index]), text)
                        .await,
                    0
                );
            }
        }
    };
    tokio::join!(refused, healthy);
    println!(
        "too large for the server: told, and 180 healthy messages stored, after {:.1?}",
        started.elapsed()
    );
    // Half of what it may take until something that the server does not answer is given up.
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    assert!(
        !rig.gateway.log().contains("NATS disconnected"),
        "the shared connection stands"
    );
}

#[tokio::test]
async fn behind_what_is_held_pings_are_answered_qos_0_is_shed_and_a_goodbye_is_heard() {
    const QOS_0: usize = 300;
    let rig = Rig::start(&[]).await;
    let [mixed, leaving, ..] = rig.devices.as_slice() else {
        panic!("two devices");
    };
    let login = async |who| Wire::login(Protocol::V311, rig.gateway.mqtt(), who, 60).await;
    let mut mixed_wire = login(&mixed.credentials).await;
    let mut leaving_wire = login(&leaving.credentials).await;

    rig.nats.pause().await;
    let publish = |who, packet_id, payload: &[u8]| {
        packet::publish(Protocol::V311, &topic(who), packet_id, payload)
    };
    for packet_id in 1..=WINDOW + 1 {
        mixed_wire
            .send(&publish(mixed, Some(packet_id), b"mixed"))
            .await;
        leaving_wire
            .send(&publish(leaving, Some(packet_id), b"leaving"))
            .await;
    }
    // Several times what the gateway looks ahead.
    for _ in 0..QOS_0 {
        mixed_wire.send(&publish(mixed, None, &[b'0'; 1_000])).await;
    }
    assert!(mixed_wire.ping().await.is_empty(), "nothing is stored yet");
    let shed = rig.gateway.metric("jetway_uplink_shed_total").await;
    let shed: usize = shed.to_string().parse().expect("a counter is whole");
    leaving_wire.send(&packet::DISCONNECT).await;
    drop(leaving_wire);
    rig.nats.resume();

    for packet_id in 1..=WINDOW + 1 {
        let puback = mixed_wire
            .packet()
            .await
            .expect("the connection stays open");
        assert_eq!(puback, [&[0x40, 2][..], &packet_id.to_be_bytes()].concat());
    }
    let backend = rig.backend().await;
    let expected = usize::from(WINDOW) + 1 + QOS_0 - shed;
    let filter = format!("device.up.mqtt.thing.{}.{}", mixed.product, mixed.name);
    let stored = backend.wait_for("DEVICE_UP", &filter, expected).await;
    println!("held: {shed} of {QOS_0} QoS 0 shed");
    assert_eq!(stored.len(), expected);
    assert!(shed > 100, "{shed}");
    let filter = format!(
        "application.device.{}.{}.status.disconnected",
        leaving.product, leaving.name
    );
    let status = backend.wait_for("APPLICATION", &filter, 1).await;
    let status: Value = serde_json::from_slice(&status[0].payload).unwrap();
    assert_eq!(status["data"]["reason"], "normal");
}

#[tokio::test]
async fn what_is_shed_behind_what_is_held_takes_no_topic_alias_along() {
    const QOS_0: usize = 300;
    let rig = Rig::start(&[]).await;
    let [who, ..] = rig.devices.as_slice() else {
        panic!("a device");
    };
    let mut wire = Wire::login(Protocol::V5, rig.gateway.mqtt(), &who.credentials, 60).await;
    rig.nats.pause().await;
    // The second has no room in the device's window of bytes.
    for packet_id in [1, 2] {
        let large = vec![b'x'; 700_000];
        let publish = packet::publish(Protocol::V5, &topic(who), Some(packet_id), &large);
        wire.send(&publish).await;
    }
    let aliased = |topic: &str, payload: &[u8]| {
        let body = [&packet::string(topic), &[3, 0x23, 0, 1][..], payload].concat();
        packet::packet(0x30, &body)
    };
    wire.send(&aliased(&topic(who), b"sets the alias")).await;
    for _ in 0..QOS_0 {
        wire.send(&aliased("", &[b'0'; 1_000])).await;
    }
    assert!(wire.ping().await.is_empty(), "nothing is stored yet");
    let shed = rig.gateway.metric("jetway_uplink_shed_total").await;
    assert!(shed > 100.0, "{shed}");
    let uses_the_alias = [0x32, 8, 0, 0, 0, 3, 3, 0x23, 0, 1];
    wire.send(&uses_the_alias).await;
    rig.nats.resume();
    for packet_id in 1..=3 {
        assert_eq!(wire.packet().await.unwrap(), [0x40, 2, 0, packet_id]);
    }
    let filter = format!("device.up.mqtt.thing.{}.{}", who.product, who.name);
    let stored = rig.backend().await.messages("DEVICE_UP", &filter).await;
    assert_eq!(stored.last().unwrap().text(), "");
}

#[tokio::test]
async fn what_a_silent_server_was_never_sent_is_held_and_then_stored() {
    const EACH: usize = 50;
    let rig = Rig::start(&[
        ("JETWAY_PUBLISHER_SHARDS", "8"),
        ("JETWAY_PUBLISHER_RETRY_BUDGET_MS", "1000"),
        ("JETWAY_PUBLISHER_ACK_TIMEOUT_MS", "200"),
    ])
    .await;
    let mut devices = Vec::new();
    for who in &rig.devices {
        let device = Device::connect(Protocol::V5, rig.gateway.mqtt(), &who.credentials).await;
        devices.push((topic(who), device));
    }
    // Its shards are connected, so that some of what follows is sent. That alone may take longer than the budget.
    for (topic, device) in &mut devices {
        eventually("the first is stored", async || {
            match device.publish_acked(topic, "first").await {
                0 => Ok(()),
                reason => Err(format!("{reason:#x}")),
            }
        })
        .await;
    }
    let refused = async || {
        rig.gateway
            .metric("jetway_uplink_stream_refused_total")
            .await
    };
    let before = refused().await;
    rig.nats.pause().await;
    for (topic, device) in &mut devices {
        for _ in 0..EACH {
            device.publish(Publish::new(topic, vec![b'x'; 16 * 1024]));
        }
    }
    let stored = join_all(devices.iter_mut().map(async |(_, device)| {
        let mut stored = 0;
        for _ in 0..EACH {
            match device.acked().await.unwrap().reason {
                0 => stored += 1,
                reason => assert_eq!(reason, 0x80),
            }
        }
        stored
    }));
    // What was sent is in doubt, and refused after the budget; nothing more is sent to a server that does not even greet.
    let outage = async {
        eventually("what is in doubt is refused", async || {
            match refused().await > before {
                true => Ok(()),
                false => Err("nothing yet".to_owned()),
            }
        })
        .await;
        lasting(Duration::from_secs(3)).await;
        rig.nats.resume();
    };
    let (stored, ()) = tokio::join!(stored, outage);
    let (_, highest) = rig.gateway_mib();
    let stored: usize = stored.into_iter().sum();
    let refused = refused().await - before;
    println!("silent: {stored} stored, {refused} refused; RSS {highest} MiB at most");
    assert!(stored > 0, "most were never sent");
    let messages = rig.backend().await.count("DEVICE_UP").await;
    assert!(messages >= (stored + devices.len()) as u64, "{messages}");
}
