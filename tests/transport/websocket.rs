//! MQTT over WebSocket: a real client, and frames as no client would send them (G21).

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::client::{WebSocket, tcp, tls, upgrade_request};
use crate::frames::{BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, frame};
use crate::site::{At, Site, downlink, stored, topic};
use crate::support::{DemoDevice, Protocol, packet, python, within};

/// paho connects, subscribes, publishes a large report, and prints the first message that it receives.
async fn paho(site: &Site, address: SocketAddr, ca: &str, version: &str) {
    let device = site.device();
    let backend = site.backend().await;
    let who = &device.credentials;
    let (up, down) = (topic("up", device), topic("down", device));
    let mut command = python(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/transport/paho_client.py"
    ));
    command
        .args([&address.port().to_string(), ca, version])
        .args([&who.client_id, &who.username, &who.password, &up, &down]);
    let mut command = tokio::process::Command::from(command);
    let mut child = command
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || within("paho", lines.next_line()).await.unwrap();
    assert_eq!(next().await.as_deref(), Some("ready"));
    let messages = backend.messages("DEVICE_UP", &stored(device)).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].payload.len(), 300_000);
    let command = "c".repeat(200_000);
    backend.publish(&downlink(device), &[], command).await;
    assert_eq!(next().await.as_deref(), Some("received 200000"));
    assert!(within("its end", child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn paho_speaks_over_wss_and_ws() {
    let site = Site::shared().await;
    let ca = site.ca.certificate.display().to_string();
    for version in ["3.1.1", "5"] {
        paho(&site, site.at(At::Wss), &ca, version).await;
        paho(&site, site.at(At::Ws), "", version).await;
    }
}

/// Upgraded and logged in.
async fn login(site: &Site, device: &DemoDevice) -> WebSocket {
    let mut socket = WebSocket::over(tcp(site.at(At::Ws)).await).await;
    socket
        .send_binary(&packet::connect(Protocol::V311, &device.credentials, 60))
        .await;
    socket.expect(&[0x20, 2, 0, 0]).await;
    socket
}

#[tokio::test]
async fn g21_packets_are_split_and_joined_freely() {
    // [MQTT-6.0.0-2]
    let site = Site::shared().await;
    let (device, backend) = (site.device(), site.backend().await);
    let topic = topic("up", device);
    let publish = |id: u16| packet::publish(Protocol::V311, &topic, Some(id), b"x");
    let mut socket = WebSocket::over(tcp(site.at(At::Ws)).await).await;
    // A byte in each frame.
    for byte in packet::connect(Protocol::V311, &device.credentials, 60) {
        socket.send_binary(&[byte]).await;
    }
    socket.expect(&[0x20, 2, 0, 0]).await;
    // A packet and a half in a frame; the rest in a message of three frames, a ping and a pong between, one of them empty.
    let (first, second) = (publish(1), publish(2));
    let (head, tail) = second.split_at(5);
    socket.send_binary(&[first.as_slice(), head].concat()).await;
    let parts = [
        frame(BINARY, &tail[..2]),
        frame(FIN | PING, b"are you there"),
        frame(CONTINUATION, b""),
        frame(FIN | PONG, b""),
        frame(FIN | CONTINUATION, &tail[2..]),
    ];
    socket.send(&parts.concat()).await;
    let mut acked = Vec::new();
    let mut pongs = 0;
    while acked.len() < 8 {
        match socket.frame().await.expect("the connection stays open") {
            (first, payload) if first == FIN | BINARY => acked.extend(payload),
            pong => {
                assert_eq!(pong, (FIN | PONG, b"are you there".to_vec()));
                pongs += 1;
            }
        }
    }
    assert_eq!(acked, [0x40, 2, 0, 1, 0x40, 2, 0, 2]);
    assert_eq!(pongs, 1);
    // Two hundred packets in one frame, which itself comes in pieces.
    let many: Vec<u8> = (3..203).flat_map(publish).collect();
    let joined = frame(FIN | BINARY, &many);
    for piece in joined.chunks(701) {
        socket.send(piece).await;
    }
    let messages = backend.wait_for("DEVICE_UP", &stored(device), 202).await;
    assert_eq!(messages.len(), 202);
    // The Close is answered, and the device is gone.
    let mut bytes = 4 * 200;
    while bytes > 0 {
        bytes -= socket.frame().await.expect("PUBACKs").1.len();
    }
    socket
        .send(&frame(FIN | CLOSE, &1000_u16.to_be_bytes()))
        .await;
    socket.expect_close(1000).await;
}

#[tokio::test]
async fn g21_frames_that_are_not_binary_close_the_connection() {
    // [MQTT-6.0.0-1]
    let site = Site::shared().await;
    let ping = packet::PINGREQ;
    for (bytes, code) in [
        (frame(FIN | TEXT, &ping), 1003),
        (frame(FIN | CONTINUATION, &ping), 1002),
        (frame(FIN | 0x40 | BINARY, &ping), 1002),
        (
            [&[FIN | BINARY, 2], ping.as_slice(), &[0; 4]].concat(),
            1002,
        ),
    ] {
        let mut socket = login(&site, site.device()).await;
        socket.send(&bytes).await;
        socket.expect_close(code).await;
    }
    // Before the login there is nothing to say.
    let mut socket = WebSocket::over(tcp(site.at(At::Ws)).await).await;
    let connect = packet::connect(Protocol::V311, &site.device().credentials, 60);
    socket.send(&frame(FIN | TEXT, &connect)).await;
    assert_eq!(socket.frame().await, None);
}

#[tokio::test]
async fn g21_a_refused_login_gets_its_connack_first() {
    let site = Site::shared().await;
    let mut who = site.device().credentials.clone();
    who.password = "wrong;hmacsha256".to_owned();
    let connect = packet::connect(Protocol::V311, &who, 60);
    let behind = packet::publish(Protocol::V311, "any", None, &[0; 50_000]);
    for secure in [false, true] {
        let mut socket = match secure {
            false => WebSocket::over(tcp(site.at(At::Ws)).await).await,
            true => WebSocket::over(tls(site.at(At::Wss), &site.ca).await).await,
        };
        socket
            .send_binary(&[connect.as_slice(), &behind].concat())
            .await;
        socket.expect(&[0x20, 2, 0, 4]).await;
        socket.expect_close(1000).await;
    }
}

#[tokio::test]
async fn a_request_that_is_no_upgrade_is_answered_and_counted() {
    let site = Site::shared().await;
    let before = site.rejected("websocket").await;
    let plain = "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n".to_owned();
    for request in [plain, upgrade_request("mqttv3.1"), upgrade_request("")] {
        let mut socket = tcp(site.at(At::Ws)).await;
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("the answer", socket.read_to_string(&mut answer))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    site.rejects("websocket", before, 3).await;
}
