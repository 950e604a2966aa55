//! nats-server stands still (SIGSTOP) under load: its connections stay open, and nothing is answered.

use std::time::{Duration, Instant};

use super::fleet::Fleet;
use super::rig::{Publishing, Rig, returned, topic};
use super::support::{DemoDevice, Device, Protocol, Publish, Wire, eventually, lasting, packet};

each_protocol!(what_was_sent_again_to_a_paused_server_is_stored_once);

async fn what_was_sent_again_to_a_paused_server_is_stored_once(publishing: Publishing) {
    let test = &format!("nats-server paused, {publishing:?}");
    let rig = Rig::publishing(publishing).await;
    let fleet = rig.fleet().await;
    fleet.pubacks_more(5_000).await;
    let (before, _) = rig.gateway_mib();
    let retries = rig
        .gateway
        .metric("jetway_uplink_stream_retries_total")
        .await;

    rig.nats.pause().await;
    lasting(Duration::from_secs(8)).await;
    let retries = rig
        .gateway
        .metric("jetway_uplink_stream_retries_total")
        .await
        - retries;
    rig.nats.resume();
    fleet.every_device_goes_on().await;
    fleet.pubacks_more(5_000).await;

    let (after, highest) = rig.gateway_mib();
    let (verdict, _) = rig.judge(fleet).await;
    println!(
        "{test}: 8 s, {retries} batches sent again; RSS {before} MiB before, {after} MiB after, {highest} MiB at most"
    );
    verdict.hold(test);
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert!(
        retries >= 3.0,
        "the ack timeout of 2 s passed several times: {retries}"
    );
    assert!(
        highest < before + 64,
        "memory is bounded: {highest} MiB after {before} MiB"
    );
}

#[tokio::test]
async fn devices_are_held_and_answered_while_the_pool_is_full() {
    const TEST: &str = "pool full";
    const QOS_0: u16 = 50;
    const SECONDS: u16 = 4;
    let rig = Rig::start(&[("JETWAY_PUBLISHER_INFLIGHT_BYTES_MAX", "1048576")]).await;
    // 17 windows of 20 such messages are three times the pool.
    let (fleet, others) = rig.devices.split_at(17);
    let fleet = Fleet::start(rig.gateway.mqtt(), fleet, 8 * 1024).await;
    let [v311, v5, shed] = others else {
        panic!("three devices beside the fleet");
    };
    let login = async |protocol, who: &DemoDevice| {
        Wire::login(protocol, rig.gateway.mqtt(), &who.credentials, 2).await
    };
    let mut held = [
        (Protocol::V311, v311, login(Protocol::V311, v311).await),
        (Protocol::V5, v5, login(Protocol::V5, v5).await),
    ];
    let mut qos_0 = login(Protocol::V5, shed).await;

    rig.nats.pause().await;
    stays_full(&rig, &mut held, &mut qos_0).await;
    for (protocol, who, wire) in &mut held {
        let publish = packet::publish(*protocol, &topic(who), Some(7), b"held 0 0 ");
        wire.send(&publish).await;
    }
    let before = rig.gateway.metric("jetway_uplink_shed_total").await;
    let publish = packet::publish(Protocol::V5, &topic(shed), None, b"shed 0 0 ");
    for _ in SECONDS..QOS_0 {
        qos_0.send(&publish).await;
    }
    // Longer than the ack timeout, and than one and a half times the keep alive.
    for _ in 0..SECONDS {
        lasting(Duration::from_secs(1)).await;
        for (_, _, wire) in &mut held {
            assert!(
                wire.ping().await.is_empty(),
                "no PUBACK while nothing is stored"
            );
        }
        // What is shed is a sign of life as well.
        qos_0.send(&publish).await;
    }
    assert!(qos_0.ping().await.is_empty());
    let counted = rig.gateway.metric("jetway_uplink_shed_total").await - before;
    let (_, highest) = rig.gateway_mib();
    rig.nats.resume();

    are_answered(&mut held).await;
    fleet.every_device_goes_on().await;
    let (verdict, _) = rig.judge(fleet).await;
    let messages = rig.backend().await.messages("DEVICE_UP", ">").await;
    let of = |start| {
        messages
            .iter()
            .filter(|one| one.text().starts_with(start))
            .count()
    };
    println!("{TEST}: {counted} of {QOS_0} QoS 0 shed; RSS {highest} MiB at most");
    verdict.hold(TEST);
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert_eq!(of("held "), 2);
    assert_eq!((counted, of("shed ")), (f64::from(QOS_0), 0));
}

/// A device whose message is held, with its connection.
type Held<'a> = (Protocol, &'a DemoDevice, Wire);

/// Waits until what a paused server had answered before makes no more room in the pool, and what room there was is taken: something
/// is sent again by then. The devices ping meanwhile, as they must.
async fn stays_full(rig: &Rig, held: &mut [Held<'_>; 2], qos_0: &mut Wire) {
    let retries = "jetway_uplink_stream_retries_total";
    let before = rig.gateway.metric(retries).await;
    eventually("the pool stays full", async || {
        for (_, _, wire) in &mut *held {
            wire.ping().await;
        }
        qos_0.ping().await;
        match rig.gateway.metric(retries).await > before {
            true => Ok(()),
            false => Err("nothing is sent again".to_owned()),
        }
    })
    .await;
}

/// Waits until each has the PUBACK of its message 7, which says that it is stored. The devices ping meanwhile, as they must.
async fn are_answered(held: &mut [Held<'_>; 2]) {
    let mut answers: [Vec<Vec<u8>>; 2] = Default::default();
    eventually("both are answered", async || {
        for ((_, _, wire), came) in held.iter_mut().zip(&mut answers) {
            came.extend(wire.ping().await);
        }
        match answers.iter().any(Vec::is_empty) {
            false => Ok(()),
            true => Err(format!("{answers:?}")),
        }
    })
    .await;
    for came in &answers {
        let [puback] = came.as_slice() else {
            panic!("expected one PUBACK: {came:?}");
        };
        assert_eq!(puback[..4], [0x40, puback[1], 0, 7], "PUBACK 7");
        assert_eq!(puback.get(4).copied().unwrap_or(0), 0, "stored");
    }
}

#[tokio::test]
async fn a_device_whose_messages_gather_under_load_is_heard_when_nothing_is_stored_any_more() {
    let rig = Rig::of(101, &[]).await;
    // Five times as many messages wait as make the gateway read a device only when its own are stored.
    let (fleet, others) = rig.devices.split_at(100);
    let fleet = Fleet::start(rig.gateway.mqtt(), fleet, 100).await;
    let [who] = others else {
        panic!("one device beside the fleet");
    };
    let mut wire = Wire::login(Protocol::V5, rig.gateway.mqtt(), &who.credentials, 60).await;
    fleet.pubacks_more(2_000).await;

    rig.nats.pause().await;
    let publish = packet::publish(Protocol::V5, &topic(who), Some(7), b"gathers 0 0 ");
    wire.send(&publish).await;
    // The first may be read with the message, the second comes behind one that waits.
    for _ in 0..2 {
        let asked = Instant::now();
        let before = wire.ping().await;
        assert!(before.is_empty(), "no PUBACK while nothing is stored");
        println!("PINGRESP after {:.1?}", asked.elapsed());
    }
    rig.nats.resume();

    let puback = wire.packet().await.expect("the connection stays open");
    assert_eq!(puback[..4], [0x40, puback[1], 0, 7], "PUBACK 7");
    fleet.every_device_goes_on().await;
    let (verdict, _) = rig.judge(fleet).await;
    verdict.hold("gathering");
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
}

#[tokio::test]
async fn after_the_retry_budget_a_device_is_told_that_its_message_is_not_stored() {
    let rig = Rig::start(&[
        ("JETWAY_PUBLISHER_RETRY_BUDGET_MS", "3000"),
        ("JETWAY_PUBLISHER_ACK_TIMEOUT_MS", "1000"),
        // One for each device, or only the first message of both would be sent.
        ("JETWAY_PUBLISHER_SHARDS", "64"),
    ])
    .await;
    let device = |protocol, index: usize| {
        let credentials = &rig.devices[index].credentials;
        Device::connect(protocol, rig.gateway.mqtt(), credentials)
    };
    let topic = |index: usize| topic(&rig.devices[index]);
    let mut v311 = device(Protocol::V311, 0).await;
    let mut v5 = device(Protocol::V5, 1).await;

    // Its shards are connected, so that what follows is sent.
    assert_eq!(v311.publish_acked(&topic(0), "first 0 0 ").await, 0);
    assert_eq!(v5.publish_acked(&topic(1), "first 0 0 ").await, 0);
    rig.nats.pause().await;
    let paused = Instant::now();
    v311.publish(Publish::new(&topic(0), "lost 0 0 "));
    v5.publish(Publish::new(&topic(1), "lost 0 0 "));
    let (refused, closed) = tokio::join!(v5.acked(), v311.closed());
    let told = paused.elapsed();
    assert_eq!(refused.unwrap().reason, 0x80, "no PUBACK says stored");
    assert_eq!(
        v311.acked().await,
        Err(closed),
        "3.1.1 gets no PUBACK at all"
    );
    assert!(
        told > Duration::from_secs(3),
        "{told:?}: not before the budget is spent"
    );
    assert!(
        told < Duration::from_secs(7),
        "{told:?}: soon after the budget is spent"
    );

    // What the silent server was never sent is in no doubt, and waits.
    v5.publish(Publish::new(&topic(1), "held 0 0 "));
    rig.nats.resume();
    assert_eq!(v5.acked().await.unwrap().reason, 0);
    assert_eq!(v5.publish_acked(&topic(1), "later 0 0 ").await, 0);
    let mut v311 = returned(Protocol::V311, rig.gateway.mqtt(), &rig.devices[0]).await;
    assert_eq!(v311.publish_acked(&topic(0), "later 0 0 ").await, 0);
    println!("retry budget of 3 s: devices told after {told:.1?}");
}
