//! Stopping: what a signal, a second one and the deadline do, under traffic and with the store away.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::events::events;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Device, Protocol, Publish, Wire, eventually, packet};

const SERVER_SHUTTING_DOWN: u8 = 0x8B;

/// Publishes numbered reports until the gateway ends the connection; gives the code of its DISCONNECT and how many
/// were acknowledged, which must be the first ones.
async fn publish_until_closed(mut device: Device, who: &Registered) -> (Option<u8>, u64) {
    let (mut sent, mut acked) = (0_u64, 0);
    loop {
        while sent < acked + 50 {
            let publish = Publish::new(&who.reports(), sent.to_string());
            assert_eq!(device.publish(publish), sent);
            sent += 1;
        }
        match device.acked().await {
            Ok(ack) => {
                assert_eq!((ack.publish, ack.reason), (acked, 0));
                acked += 1;
            }
            Err(closed) => return (closed.reason, acked),
        }
    }
}

#[tokio::test]
async fn sigterm_under_traffic_loses_nothing_that_was_acknowledged_and_says_goodbye() {
    let mut site = Site::start(&[]).await;
    let backend = site.backend().await;
    let mut devices = Vec::new();
    for index in 0..6 {
        let who = site.device();
        let protocol = BOTH[index % 2];
        devices.push((protocol, site.connect(protocol, &who).await, who));
    }
    let traffic = devices.into_iter().map(async |(protocol, device, who)| {
        let (reason, acked) = publish_until_closed(device, &who).await;
        (protocol, reason, acked, who)
    });
    let stop = async {
        site.counted("jetway_uplink_stream_stored_total", 500.0)
            .await;
        site.gateway.terminate();
    };
    let (ended, ()) = tokio::join!(join_all(traffic), stop);
    let status = site.gateway.wait().await;
    assert_eq!(status.code(), Some(0), "{status}");

    for (protocol, reason, acked, who) in ended {
        let told = (protocol == Protocol::V5).then_some(SERVER_SHUTTING_DOWN);
        assert_eq!(reason, told);
        assert!(acked > 0, "traffic was flowing");
        let stored = who.stored(&backend).await;
        for (number, message) in stored.iter().enumerate() {
            assert_eq!(message.text(), number.to_string());
        }
        assert!(
            stored.len() as u64 >= acked,
            "{} of {acked} are stored",
            stored.len()
        );
        let all = events(&backend, &who, 2).await;
        assert_eq!(all[1].what(), "server_shutting_down");
    }
}

#[tokio::test]
async fn a_drain_waits_for_the_store_and_sends_the_pubacks_before_it_says_goodbye() {
    let mut site = Site::start(&[]).await;
    let backend = site.backend().await;
    let mut waiting = Vec::new();
    for protocol in BOTH {
        let who = site.device();
        let mut wire = Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await;
        // Behind this, every packet that was sent before is handled.
        wire.ping().await;
        waiting.push((protocol, who, wire));
    }
    site.nats.pause().await;
    for (protocol, who, wire) in &mut waiting {
        wire.send(&packet::publish(
            *protocol,
            &who.reports(),
            Some(1),
            b"last",
        ))
        .await;
        assert!(wire.ping().await.is_empty());
    }
    site.gateway.terminate();
    site.gateway.until_not_ready("draining").await;
    assert_eq!(site.gateway.get("/livez").await.0, 200);
    site.nats.resume();
    for (protocol, who, wire) in &mut waiting {
        let goodbye: &[u8] = match protocol {
            Protocol::V311 => &[],
            Protocol::V5 => &packet::disconnect(SERVER_SHUTTING_DOWN),
        };
        let expected = [&[0x40, 2, 0, 1], goodbye].concat();
        assert_eq!(wire.closed().await, expected, "{protocol:?}");
        assert_eq!(who.stored(&backend).await.len(), 1);
    }
    assert_eq!(site.gateway.wait().await.code(), Some(0));
}

#[tokio::test]
async fn a_drain_names_another_server_to_those_who_can_read_it() {
    let other = "mqtt2.example.com:1883; and words that make it longer than the smallest packet";
    let mut site = Site::start(&[("JETWAY_DRAIN_SERVER_REFERENCE", other)]).await;
    let least = [0x27, 0, 0, 0, 64];
    let mut wires = Vec::new();
    for (protocol, properties) in [
        (Protocol::V311, &[][..]),
        (Protocol::V5, &[]),
        (Protocol::V5, &least),
    ] {
        let credentials = site.device().credentials;
        let connect = packet::connect_with_properties(protocol, &credentials, 60, properties);
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        wire.send(&connect).await;
        wire.accepted().await;
        wires.push(wire);
    }
    site.gateway.terminate();
    let words = "use another server";
    let properties = [
        &[0x1C][..],
        &packet::string(other),
        &[0x1F],
        &packet::string(words),
    ];
    let properties = properties.concat();
    let length = u8::try_from(properties.len()).unwrap();
    let redirect = packet::packet(0xE0, &[&[0x9C, length], &properties[..]].concat());
    let expected = [vec![], redirect, packet::disconnect(SERVER_SHUTTING_DOWN)];
    for (wire, goodbye) in wires.iter_mut().zip(expected) {
        assert_eq!(wire.closed().await, goodbye);
    }
    assert_eq!(site.gateway.wait().await.code(), Some(0));
}

#[tokio::test]
async fn a_drain_ends_although_devices_keep_connecting() {
    let mut site = Site::start(&[]).await;
    let address = site.gateway.mqtt();
    let before = site.gateway.metric("jetway_connects_total").await;
    let storm = (0..64).map(async |index| {
        let connect = packet::connect(BOTH[index % 2], &site.device().credentials, 60);
        // Until the listener is gone.
        while let Ok(mut socket) = TcpStream::connect(address).await {
            let mut answer = Vec::new();
            if socket.write_all(&connect).await.is_ok() && index % 4 != 0 {
                socket.read_buf(&mut answer).await.ok();
            }
        }
    });
    let stop = async {
        site.counted("jetway_connects_total", before + 200.0).await;
        site.gateway.terminate();
    };
    tokio::join!(join_all(storm), stop);
    let status = site.gateway.wait().await;
    assert_eq!(status.code(), Some(0), "{status}");
}

/// A gateway that was told to stop and cannot: a device's message waits for a nats-server that is paused.
async fn stuck_in_drain(environment: &[(&str, &str)]) -> (Site, Wire) {
    let site = Site::start(environment).await;
    let who = site.device();
    let mut wire = Wire::login(Protocol::V5, site.gateway.mqtt(), &who.credentials, 60).await;
    wire.ping().await;
    site.nats.pause().await;
    wire.send(&packet::publish(
        Protocol::V5,
        &who.reports(),
        Some(1),
        b"waits",
    ))
    .await;
    assert!(wire.ping().await.is_empty());
    site.gateway.terminate();
    (site, wire)
}

#[tokio::test]
async fn half_a_request_at_the_http_port_does_not_hold_up_a_drain() {
    let mut site = Site::start(&[]).await;
    let mut half = TcpStream::connect(site.gateway.ready.http).await.unwrap();
    half.write_all(b"GET /readyz HT").await.unwrap();
    // Answered after the gateway has read the other one's half.
    site.gateway.until_ready().await;
    site.gateway.terminate();
    let status = site.gateway.wait().await;
    assert_eq!(status.code(), Some(0), "{status}");
}

#[tokio::test]
async fn a_second_signal_exits_with_1_at_once() {
    let (mut site, mut wire) = stuck_in_drain(&[]).await;
    eventually("the drain has begun", async || {
        match site.gateway.log().contains("draining") {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
    assert!(site.gateway.is_alive(), "it waits for the store");
    site.gateway.terminate();
    let status = site.gateway.wait().await;
    assert_eq!((status.code(), status.signal()), (Some(1), None));
    assert!(wire.closed().await.is_empty(), "nothing is acknowledged");
}

#[tokio::test]
async fn the_deadline_of_a_drain_exits_with_1() {
    let (mut site, mut wire) = stuck_in_drain(&[("JETWAY_DRAIN_DEADLINE_MS", "700")]).await;
    let began = Instant::now();
    let status = site.gateway.wait().await;
    assert_eq!((status.code(), status.signal()), (Some(1), None));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(wire.closed().await.is_empty(), "nothing is acknowledged");
}

#[tokio::test]
async fn readiness_follows_nats_and_liveness_does_not() {
    // G38, G25
    let mut site = Site::start(&[]).await;
    site.gateway.until_ready().await;
    assert_eq!(site.gateway.get("/livez").await.0, 200);
    site.nats.kill9().await;
    site.gateway.until_not_ready("NATS is not connected").await;
    assert_eq!(site.gateway.get("/livez").await.0, 200);
    site.nats.restart().await;
    site.gateway.until_ready().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "after").await, 0);
        assert_eq!(who.stored(&backend).await.len(), 1);
    }
    site.gateway.terminate();
    assert_eq!(site.gateway.wait().await.code(), Some(0));
}
