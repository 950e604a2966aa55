//! G15: whoever stops anywhere in a handshake is gone in time, and delays nobody.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{WebSocket, tcp, tls, tls_over, upgrade_request};
use crate::site::Site;
use crate::support::pki::{Key, Pki};
use crate::support::{Protocol, Stream, Wire, eventually, packet, within};

const HANDSHAKE: Duration = Duration::from_secs(4);
/// Of each kind.
const PEERS: usize = 40;

const TLS: usize = 0;
const WS: usize = 1;
const WSS: usize = 2;
const PROXY: usize = 3;

async fn site() -> Site {
    let pki = Pki::new();
    let (ca, client_ca) = (pki.authority("ca"), pki.authority("client-ca"));
    let certificate = pki.leaf("server", Key::Ecdsa, &ca, 10).settings();
    let address = "listen = '127.0.0.1:0'";
    let listeners = [
        format!("{address}, transport = 'tls', {certificate}"),
        format!("{address}, transport = 'ws'"),
        format!("{address}, transport = 'wss', {certificate}"),
        format!("{address}, proxy_protocol = true"),
    ];
    let limit = HANDSHAKE.as_millis().to_string();
    let settings = [
        ("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", limit.as_str()),
        // Whose connections to the database come as they are needed are descriptors, too.
        ("JETWAY_ROLES", r#"["gateway"]"#),
    ];
    Site::start(pki, ca, client_ca, &listeners, &settings).await
}

/// Peers that stopped: one of each kind.
async fn stopped(site: &Site) -> Vec<Box<dyn Stream>> {
    let client_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3];
    let request = upgrade_request("mqtt");
    let mut peers: Vec<Box<dyn Stream>> = Vec::new();
    for (listener, bytes) in [
        (TLS, b"".as_slice()),
        (TLS, &client_hello),
        (WS, b""),
        (WS, &request.as_bytes()[..100]),
        (WSS, b""),
        (PROXY, b""),
        (PROXY, b"PROXY TCP4 192.0.2.7 10.0"),
        (PROXY, b"PROXY TCP4 192.0.2.7 10.0.0.1 54321 1883\r\n"),
        (PROXY, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01"),
    ] {
        let mut peer = tcp(site.address(listener)).await;
        peer.write_all(bytes).await.unwrap();
        peers.push(Box::new(peer));
    }
    // All but the CONNECT, or half of it.
    let mut secure = tls(site.address(TLS), &site.ca).await;
    secure.write_all(&[0x10, 0x40, 0, 4]).await.unwrap();
    peers.push(Box::new(secure));
    peers.push(Box::new(tls(site.address(WSS), &site.ca).await));
    peers
}

#[tokio::test]
async fn g15_half_open_handshakes_end_in_time_and_delay_no_login() {
    let mut site = site().await;
    let before = site.gateway.sockets();
    let opened = Instant::now();
    let peers = join_all((0..PEERS).map(|_| stopped(&site))).await;
    let mut peers: Vec<_> = peers.into_iter().flatten().collect();
    let device = site.device().credentials.clone();
    for _ in 0..10 {
        let socket = tls_over(tcp(site.address(TLS)).await, &site.ca, None)
            .await
            .unwrap();
        let mut wire = Wire::over(socket);
        wire.send(&packet::connect(Protocol::V5, &device, 60)).await;
        wire.accepted().await;
        wire.send(&packet::DISCONNECT).await;
        wire.closed().await;
    }
    let logged_in = opened.elapsed();
    assert!(
        logged_in < HANDSHAKE,
        "{logged_in:?}: the logins waited for the peers, or those were gone too early to count"
    );

    let count = peers.len();
    let ends = peers.iter_mut().map(|peer| {
        let mut rest = Vec::new();
        async move { peer.read_to_end(&mut rest).await }
    });
    within("all of them to be closed", join_all(ends)).await;
    assert!(
        opened.elapsed() < 2 * HANDSHAKE,
        "closed after {:?}",
        opened.elapsed()
    );
    // The last of them is counted a moment after it is closed.
    site.rejects("timeout", 0.0, count).await;
    assert_eq!(site.rejected("timeout").await, count as f64);
    drop(peers);
    eventually("all sockets are closed", async || {
        match site.gateway.sockets() {
            now if now <= before => Ok(()),
            now => Err(format!("{now}, {before} before")),
        }
    })
    .await;
    assert!(site.gateway.is_alive());
    let log = site.gateway.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn g15_a_slow_peer_wins_no_time_by_any_layer() {
    let site = site().await;
    let opened = Instant::now();
    let mut websocket = WebSocket::over(tls(site.address(WSS), &site.ca).await).await;
    // Pings are traffic, and no CONNECT.
    let ping = crate::frames::frame(0x89, b"still here");
    let pongs = async {
        websocket.send(&ping).await;
        while websocket.frame().await.is_some() {
            websocket.send(&ping).await;
        }
    };
    within("the end", pongs).await;
    let took = opened.elapsed();
    assert!(
        took > HANDSHAKE / 2 && took < 2 * HANDSHAKE,
        "closed after {took:?}"
    );
}
