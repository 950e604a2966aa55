//! The PROXY protocol: the announced address is the peer's, and without a header nothing is.

use tokio::io::AsyncWriteExt as _;

use crate::client::{tcp, tls_over};
use crate::site::{At, Site, peer_address};
use crate::support::{DemoDevice, Protocol, Wire, packet};

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 54321 1883\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x27\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \xd4\x31\x07\x5b\x04\0\0";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

async fn login(mut wire: Wire, device: &DemoDevice) {
    wire.send(&packet::connect(Protocol::V5, &device.credentials, 60))
        .await;
    wire.accepted().await;
}

#[tokio::test]
async fn the_announced_address_is_the_peers() {
    let site = Site::shared().await;
    for (header, address) in [(V1, "192.0.2.7:54321"), (V2, "[2001:db8::7]:54321")] {
        // In front of the CONNECT, a byte at a time.
        let device = site.device();
        let mut wire = Wire::connect(site.at(At::Proxy)).await;
        for byte in header {
            wire.send(&[*byte]).await;
        }
        login(wire, device).await;
        assert_eq!(peer_address(&site, device).await, address);
        // In front of the TLS handshake.
        let device = site.device();
        let mut socket = tcp(site.at(At::ProxyTls)).await;
        socket.write_all(header).await.unwrap();
        let socket = tls_over(socket, &site.ca, None).await.unwrap();
        login(Wire::over(socket), device).await;
        assert_eq!(peer_address(&site, device).await, address);
    }
    // One segment for both; the proxy's own connection has its own address.
    let device = site.device();
    let mut wire = Wire::connect(site.at(At::Proxy)).await;
    let connect = packet::connect(Protocol::V5, &device.credentials, 60);
    wire.send(&[LOCAL, &connect].concat()).await;
    wire.accepted().await;
    assert!(peer_address(&site, device).await.starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn without_a_valid_header_nothing_is_answered() {
    let site = Site::shared().await;
    let before = site.rejected("proxy").await;
    let connect = packet::connect(Protocol::V5, &site.device().credentials, 60);
    let too_long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100]].concat();
    let headers: [&[u8]; 5] = [
        b"",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 54321\r\n",
        &too_long,
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
    ];
    for header in headers {
        let mut wire = Wire::connect(site.at(At::Proxy)).await;
        wire.send(&[header, &connect].concat()).await;
        assert!(wire.closed().await.is_empty());
    }
    site.rejects("proxy", before, headers.len()).await;
}

#[tokio::test]
async fn a_listener_that_expects_none_takes_none() {
    let site = Site::shared().await;
    let connect = packet::connect(Protocol::V5, &site.device().credentials, 60);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&[V1, &connect].concat()).await;
    assert!(wire.closed().await.is_empty());
}
