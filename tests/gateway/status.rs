//! Connected and disconnected: every end of a connection has its reason, in the true order, also under takeover.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::events::{Event, events};
use crate::session_present::come_in;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Connect, Protocol, Wire, lasting, packet};

fn what(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::what).collect()
}

async fn login(site: &Site, protocol: Protocol, who: &Registered, keep_alive: u16) -> Wire {
    Wire::login(protocol, site.gateway.mqtt(), &who.credentials, keep_alive).await
}

/// What the gateway says before it closes.
fn goodbye(protocol: Protocol, reason: u8) -> Vec<u8> {
    match protocol {
        Protocol::V311 => Vec::new(),
        Protocol::V5 => packet::disconnect(reason),
    }
}

#[tokio::test]
async fn every_connection_has_its_events_with_the_reason_of_its_end() {
    // G28
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    for (round, protocol) in BOTH.into_iter().enumerate() {
        site.connect(protocol, &who).await.disconnect().await;
        let first = round * 6;
        events(&backend, &who, first + 2).await;

        drop(site.connect(protocol, &who).await);
        events(&backend, &who, first + 4).await;

        let mut wire = login(&site, protocol, &who, 60).await;
        wire.half_close().await;
        assert!(wire.closed().await.is_empty());
        let all = events(&backend, &who, first + 6).await;
        let expected = [
            "connected",
            "normal",
            "connected",
            "socket_closed",
            "connected",
            "socket_closed",
        ];
        assert_eq!(what(&all[first..]), expected, "{protocol:?}");
        let version = match protocol {
            Protocol::V311 => "3.1.1",
            Protocol::V5 => "5.0",
        };
        assert!(
            all[first..]
                .iter()
                .all(|event| event.data.protocol_version == version)
        );
    }
    assert_eq!(events(&backend, &who, 12).await.len(), 12);
}

#[tokio::test]
async fn g16_a_device_against_the_protocol_is_reported_so() {
    // G18
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let second_connect = packet::connect(protocol, &who.credentials, 60);
        let cases: [(&[u8], u8); 3] = [
            (&second_connect, 0x82), // [MQTT-3.1.0-2]
            (&[0xF7, 0], 0x81),
            (&packet::PINGRESP, 0x82),
        ];
        for (index, (bytes, reason)) in cases.into_iter().enumerate() {
            let mut wire = login(&site, protocol, &who, 60).await;
            wire.send(bytes).await;
            assert_eq!(wire.closed().await, goodbye(protocol, reason));
            // A new connection before this is reported would be a takeover.
            events(&backend, &who, 2 * index + 2).await;
        }
        let all = events(&backend, &who, 6).await;
        let expected = [
            "connected",
            "protocol_error",
            "connected",
            "malformed_packet",
            "connected",
            "protocol_error",
        ];
        assert_eq!(what(&all), expected, "{protocol:?}");
    }
}

/// A device with a keep alive of 1 s that says nothing after its SUBSCRIBE.
async fn assert_closed_when_silent(site: &Site, protocol: Protocol, with_downlinks: bool) {
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = login(site, protocol, &who, 1).await;
    let filter = who.topic("$thing/down/+");
    let silent = Instant::now();
    wire.send(&packet::subscribe(protocol, 1, &[(&filter, 0)]))
        .await;
    wire.packet().await.expect("SUBACK");
    let subject = who.subject("device.down.mqtt.thing");
    let downlinks = async {
        let mut interval = tokio::time::interval(Duration::from_millis(50));
        loop {
            interval.tick().await;
            if with_downlinks {
                backend.publish(&subject, &[], "keeps coming").await;
            }
        }
    };
    let received = tokio::select! {
        received = wire.closed() => received,
        never = downlinks => never,
    };
    let after = silent.elapsed().as_secs_f64();
    assert!(
        (1.2..5.0).contains(&after),
        "{protocol:?}: closed after {after} s"
    );
    assert!(received.ends_with(&goodbye(protocol, 0x8D)));
    assert_eq!(
        received.len() > 100,
        with_downlinks,
        "downlinks are received"
    );
    let all = events(&backend, &who, 2).await;
    assert_eq!(what(&all), ["connected", "keep_alive_timeout"]);
}

#[tokio::test]
async fn g03_a_silent_device_is_closed_after_one_and_a_half_times_its_keep_alive() {
    // [MQTT-3.1.2-22]: also while the gateway keeps sending to it.
    let site = Site::shared().await;
    let cases = BOTH
        .into_iter()
        .flat_map(|protocol| [(protocol, false), (protocol, true)]);
    join_all(cases.map(|(protocol, with_downlinks)| {
        assert_closed_when_silent(&site, protocol, with_downlinks)
    }))
    .await;
}

#[tokio::test]
async fn any_packet_keeps_a_device_alive() {
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let mut wire = login(&site, protocol, &who, 2).await;
        let mut interval = tokio::time::interval(Duration::from_millis(500));
        let report = packet::publish(protocol, &who.reports(), None, b"alive");
        for _ in 0..9 {
            interval.tick().await;
            wire.send(&report).await;
        }
        assert!(
            wire.ping().await.is_empty(),
            "{protocol:?}: it is still connected"
        );
    }
}

#[tokio::test]
async fn g03_a_keep_alive_of_zero_is_bounded_and_the_bound_announced() {
    // [MQTT-3.1.2-21]
    let site = Site::start(&[("JETWAY_SESSION_KEEP_ALIVE_MAX_S", "1")]).await;
    let backend = site.backend().await;
    let cases = BOTH
        .into_iter()
        .flat_map(|protocol| [(protocol, 0), (protocol, 600)]);
    join_all(cases.map(async |(protocol, asked)| {
        let who = site.device();
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        wire.send(&packet::connect(protocol, &who.credentials, asked))
            .await;
        let connack = wire.packet().await.unwrap();
        let server_keep_alive = connack.windows(3).any(|bytes| bytes == [0x13, 0, 1]);
        assert_eq!(
            server_keep_alive,
            protocol == Protocol::V5,
            "{connack:02x?}"
        );
        assert_eq!(wire.closed().await, goodbye(protocol, 0x8D));
        let all = events(&backend, &who, 2).await;
        assert_eq!(what(&all), ["connected", "keep_alive_timeout"]);
    }))
    .await;
}

#[tokio::test]
async fn g01_a_second_connection_takes_over_and_the_first_is_told() {
    const SESSION_TAKEN_OVER: u8 = 0x8E;
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        for second_protocol in BOTH {
            let who = site.device();
            let mut first = site.connect(protocol, &who).await;
            assert_eq!(first.subscribe(&who.topic("$thing/down/+")).await, 1);
            let mut second = site.connect(second_protocol, &who).await;
            let closed = first.closed().await;
            let told = (protocol == Protocol::V5).then_some(SESSION_TAKEN_OVER);
            assert_eq!(closed.reason, told, "{closed:?}");
            // Nothing of the first touches the second, nor is anything of it inherited.
            assert_eq!(second.publish_acked(&who.reports(), "mine").await, 0);
            assert_eq!(second.subscribe(&who.topic("$thing/down/+")).await, 1);
            backend
                .publish(&who.subject("device.down.mqtt.thing"), &[], "yours")
                .await;
            assert_eq!(second.next().await.text(), "yours");
            let all = events(&backend, &who, 3).await;
            assert_eq!(what(&all), ["connected", "taken_over", "connected"]);
            second.disconnect().await;
            let all = events(&backend, &who, 4).await;
            assert_eq!(what(&all)[3..], ["normal"]);
        }
    }
}

#[tokio::test]
async fn the_socket_of_a_taken_over_connection_is_closed() {
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let mut first = login(&site, protocol, &who, 60).await;
        let mut second = login(&site, protocol, &who, 60).await;
        assert_eq!(first.closed().await, goodbye(protocol, 0x8E));
        assert!(second.ping().await.is_empty());
    }
}

#[tokio::test]
async fn g01_fifty_rapid_takeovers_leave_one_connection_and_tell_which() {
    // G28
    const COUNT: usize = 50;
    // Those that are told to come again are not to be blocked for it.
    let site = Site::start(&[("JETWAY_PROTECTION_FLAPPING", "{ connects_max = 0 }")]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let unavailable = "jetway_connects_rejected_total{reason=\"unavailable\"}";
        let before = site.gateway.metric(unavailable).await;
        let connects = (0..COUNT).map(|_| {
            let connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
            come_in(connect)
        });
        let connected = join_all(connects).await;
        // They wait for each other: only who would wait for too long is told to come again.
        let refused = site.gateway.metric(unavailable).await - before;
        assert!(refused < COUNT as f64 * 2.0, "{protocol:?}: {refused}");
        let all = events(&backend, &who, 2 * COUNT - 1).await;
        // One that was taken over before its CONNACK left is gone already; the others find out now.
        let survivors = connected.into_iter().flatten().map(async |mut device| {
            device.publish(crate::support::Publish::new(&who.reports(), "who am I"));
            device
                .acked()
                .await
                .is_ok_and(|acked| acked.reason == 0)
                .then_some(device)
        });
        let alive = join_all(survivors).await;
        assert_eq!(alive.iter().flatten().count(), 1, "{protocol:?}");

        assert_eq!(all.len(), 2 * COUNT - 1);
        let last = all.last().unwrap();
        assert_eq!(last.what(), "connected");
        let takeovers = all.iter().filter(|event| event.what() == "taken_over");
        assert_eq!(takeovers.count(), COUNT - 1);
        // What the live device publishes carries the id of the connection that is reported last.
        let stored = who.stored_count(&backend, 1).await;
        let ids: HashSet<&str> = stored
            .iter()
            .map(|message| message.header("Jw-Id"))
            .collect();
        let own = format!("{}.1", last.data.connection_id);
        assert!(ids.contains(&*own), "{own} is not among {ids:?}");
        drop(alive);
        let all = events(&backend, &who, 2 * COUNT).await;
        assert_eq!(all.last().unwrap().what(), "socket_closed");
    }
}

#[tokio::test]
async fn an_event_outlives_an_outage_that_is_longer_than_the_retry_budget() {
    // G28, G-STATUS. The event is under way to a server that never stores it.
    let mut site = Site::start(&[
        ("JETWAY_PUBLISHER_ACK_TIMEOUT_MS", "100"),
        ("JETWAY_PUBLISHER_RETRY_BUDGET_MS", "500"),
    ])
    .await;
    let who = site.device();
    let wire = login(&site, Protocol::V5, &who, 60).await;
    site.nats.pause().await;
    drop(wire);
    let retries = "jetway_status_stream_retries_total";
    site.counted(retries, 0.0).await;
    site.nats.kill9().await;
    lasting(Duration::from_secs(1)).await;
    site.nats.restart().await;
    let backend = site.backend().await;
    assert_eq!(
        what(&events(&backend, &who, 2).await),
        ["connected", "socket_closed"]
    );
}

#[tokio::test]
async fn logins_that_wait_for_room_for_their_events_all_come_in_when_there_is_some() {
    // G24, G-BOUND. In the least pool there is room for about 400 events.
    const LOGINS: usize = 350;
    let site = Site::start(&[
        ("JETWAY_PUBLISHER_INFLIGHT_BYTES_MAX", "1048576"),
        ("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", "60000"),
    ])
    .await;
    site.nats.pause().await;
    let mut wires = Vec::new();
    for _ in 0..LOGINS {
        let credentials = site.device().credentials;
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        wire.send(&packet::connect(Protocol::V311, &credentials, 60))
            .await;
        wires.push(wire);
    }
    // From then on all of them wait for room, or have it.
    site.counted("jetway_auth_accepted_total", LOGINS as f64 - 1.0)
        .await;
    site.nats.resume();
    join_all(wires.iter_mut().map(Wire::accepted)).await;
}
