//! Much for a device that reads slowly: every byte arrives, whatever layers hold some of it back for a while.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{WebSocket, tcp, tls};
use crate::frames::{BINARY, FIN, frame};
use crate::site::{At, Site, downlink, topic};
use crate::support::{DemoDevice, Protocol, Stream, lasting, packet, within};

const MESSAGES: u8 = 12;
const MESSAGE_BYTES: usize = 200_000;
/// Longer than it takes until all that the gateway may send is on its way.
const ASLEEP: Duration = Duration::from_millis(400);

/// What the gateway sends a device that subscribes: CONNACK, SUBACK, and the messages in order.
fn expected(device: &DemoDevice) -> Vec<u8> {
    let mut expected = vec![0x20, 2, 0, 0, 0x90, 3, 0, 9, 0];
    for number in 0..MESSAGES {
        let payload = vec![number; MESSAGE_BYTES];
        expected.extend(packet::publish(
            Protocol::V311,
            &topic("down", device),
            None,
            &payload,
        ));
    }
    expected
}

/// Subscribes with QoS 0, and lets messages come while nothing is read.
async fn fill(site: &Site, device: &DemoDevice, suback: impl AsyncFnOnce()) {
    suback().await;
    let backend = site.backend().await;
    for number in 0..MESSAGES {
        let headers = [("Jw-Qos", "0")];
        backend
            .publish(&downlink(device), &headers, vec![number; MESSAGE_BYTES])
            .await;
    }
    lasting(ASLEEP).await;
}

fn hello(device: &DemoDevice) -> Vec<u8> {
    let connect = packet::connect(Protocol::V311, &device.credentials, 60);
    let filter = topic("down", device);
    [
        connect,
        packet::subscribe(Protocol::V311, 9, &[(&filter, 0)]),
    ]
    .concat()
}

async fn read(stream: &mut (impl Stream + ?Sized), bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    within("all bytes", stream.read_exact(&mut found))
        .await
        .unwrap();
    found
}

#[tokio::test]
async fn over_tls() {
    let site = Site::shared().await;
    for listener in [At::TlsRsa, At::TlsEcdsa] {
        let device = site.device();
        let mut socket = tls(site.at(listener), &site.ca).await;
        socket.write_all(&hello(device)).await.unwrap();
        let mut found = Vec::new();
        fill(&site, device, async || found = read(&mut socket, 9).await).await;
        let expected = expected(device);
        found.extend(read(&mut socket, expected.len() - 9).await);
        assert!(found == expected, "bytes differ");
    }
}

#[tokio::test]
async fn over_websocket() {
    let site = Site::shared().await;
    for secure in [false, true] {
        let device = site.device();
        let mut socket = match secure {
            false => WebSocket::over(tcp(site.at(At::Ws)).await).await,
            true => WebSocket::over(tls(site.at(At::Wss), &site.ca).await).await,
        };
        socket.send(&frame(FIN | BINARY, &hello(device))).await;
        let mut found = Vec::new();
        let expected = expected(device);
        fill(&site, device, async || {
            while found.len() < 9 {
                found.extend(socket.frame().await.expect("open").1);
            }
        })
        .await;
        while found.len() < expected.len() {
            let (first, payload) = socket.frame().await.expect("the connection stays open");
            assert_eq!(first, FIN | BINARY);
            found.extend(payload);
        }
        assert!(found == expected, "bytes differ");
    }
}
