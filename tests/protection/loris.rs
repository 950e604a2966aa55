//! G15: thousands of handshakes that go nowhere delay no login, are closed in time, and leave nothing behind.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::site::Site;
use crate::support::{Protocol, Wire, eventually, packet, within};

const PEERS: usize = 5_000;
const LOGINS: usize = 20;
/// Long enough that all are open at the same time, also in a debug build.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// This program holds the other ends.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_5_000_half_open_handshakes_delay_no_login() {
    raise_descriptors();
    let limit = HANDSHAKE.as_millis().to_string();
    let settings = [
        ("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", limit.as_str()),
        // Other roles open descriptors of their own when it is their time.
        ("JETWAY_ROLES", r#"["gateway"]"#),
    ];
    let mut site = Site::start(LOGINS, &settings).await;
    let before = site.gateway.sockets();
    let opened = Instant::now();
    let mut peers = Vec::with_capacity(PEERS);
    for number in 0..PEERS {
        let mut peer = TcpStream::connect(site.gateway.mqtt()).await.unwrap();
        // Nothing, or a CONNECT that does not end.
        if number % 2 == 1 {
            let connect = packet::connect(Protocol::V5, &Site::device(0), 60);
            peer.write_all(&connect[..connect.len() / 2]).await.unwrap();
        }
        peers.push(peer);
    }
    eventually("all of them are open", async || {
        match site.gateway.sockets().saturating_sub(before) {
            open if open >= PEERS => Ok(()),
            open => Err(format!("{open}")),
        }
    })
    .await;
    // What the machine does besides is slow for a while; handshakes that delay logins do so as long as they are open.
    loop {
        let mut logins = Vec::new();
        for number in 0..LOGINS {
            let start = Instant::now();
            let device = Site::device(number);
            let mut wire = Wire::login(Protocol::V5, site.gateway.mqtt(), &device, 60).await;
            logins.push(start.elapsed());
            wire.send(&packet::DISCONNECT).await;
            wire.closed().await;
        }
        logins.sort();
        println!("logins beside {PEERS} half-open handshakes: {logins:?}");
        assert!(opened.elapsed() < HANDSHAKE, "too late: {logins:?}");
        if logins[LOGINS / 2] < Duration::from_millis(100) {
            break;
        }
    }

    let ends = peers.iter_mut().map(|peer| {
        let mut rest = Vec::new();
        async move { peer.read_to_end(&mut rest).await }
    });
    within("all of them to be closed", join_all(ends)).await;
    let rejected = "jetway_connects_rejected_total{reason=\"timeout\"}";
    eventually("each is counted", async || {
        match site.gateway.metric(rejected).await {
            count if count == PEERS as f64 => Ok(()),
            count => Err(format!("{count}")),
        }
    })
    .await;
    eventually("all sockets are closed", async || {
        match site.gateway.sockets() {
            now if now <= before => Ok(()),
            now => Err(format!("{now}, {before} before")),
        }
    })
    .await;
    assert!(site.gateway.is_alive());
}

#[tokio::test]
async fn g15_an_address_holds_no_more_handshakes_than_it_may_have_connections() {
    let settings = [("JETWAY_PROTECTION_SOURCE_CONNECTIONS_MAX", "3")];
    let site = Site::start(3, &settings).await;
    let mut half_open = Vec::new();
    for _ in 0..2 {
        let mut peer = Wire::connect(site.gateway.mqtt()).await;
        peer.send(&[0x10, 0x40]).await;
        half_open.push(peer);
    }
    let device = Wire::login(Protocol::V311, site.gateway.mqtt(), &Site::device(0), 60).await;
    let mut refused = Wire::connect(site.gateway.mqtt()).await;
    assert!(refused.closed().await.is_empty(), "closed without a word");
    site.refuses("source_connections", 1.0).await;
    // Others have places of their own, and one that is free again is taken again.
    let (code, _other) = site
        .connect("192.0.2.7", Protocol::V5, &Site::device(1))
        .await;
    assert_eq!(code, 0);
    drop(half_open);
    eventually("there is a place again", async || {
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        let connect = packet::connect(Protocol::V311, &Site::device(2), 60);
        wire.send(&connect).await;
        wire.packet()
            .await
            .map(drop)
            .ok_or_else(|| "closed".to_owned())
    })
    .await;
    drop(device);
}
