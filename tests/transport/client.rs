//! Clients that speak TLS and WebSocket byte by byte, as no library would.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::frames::{BINARY, CLOSE, FIN, frame};
use crate::support::pki::Pair;
use crate::support::{Stream, within};

pub(crate) async fn tcp(address: SocketAddr) -> TcpStream {
    let socket = within("a TCP connection", TcpStream::connect(address))
        .await
        .unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// The certificates of a PEM file.
pub(crate) fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_file_iter(path).unwrap();
    certificates.collect::<Result<_, _>>().unwrap()
}

/// A TLS handshake over a socket; with a certificate of its own or without.
pub(crate) async fn tls_over(
    socket: TcpStream,
    ca: &Pair,
    own: Option<&Pair>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&ca.certificate) {
        roots.add(certificate).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            let chain = certificates(&own.certificate);
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    within("a TLS handshake", connector.connect(name, socket)).await
}

/// A TLS connection, with no certificate of its own.
pub(crate) async fn tls(address: SocketAddr, ca: &Pair) -> TlsStream<TcpStream> {
    tls_over(tcp(address).await, ca, None).await.unwrap()
}

/// The request for an upgrade, with these sub-protocols.
pub(crate) fn upgrade_request(protocols: &str) -> String {
    format!(
        "GET /mqtt HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: {protocols}\r\n\r\n"
    )
}

/// A WebSocket connection of a client that chooses each frame.
pub(crate) struct WebSocket {
    stream: Box<dyn Stream>,
}

impl WebSocket {
    /// Upgrades a stream; panics unless `mqtt` is selected.
    pub(crate) async fn over(mut stream: impl Stream + 'static) -> Self {
        stream
            .write_all(upgrade_request("mqtt").as_bytes())
            .await
            .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(
                within("the upgrade's answer", stream.read_u8())
                    .await
                    .unwrap(),
            );
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(
            answer.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"),
            "{answer}"
        );
        Self {
            stream: Box::new(stream),
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn send(&mut self, frames: &[u8]) {
        // The other end may have closed, which a later read tells.
        within("room to send", self.stream.write_all(frames))
            .await
            .ok();
    }

    /// Sends one binary frame.
    pub(crate) async fn send_binary(&mut self, payload: &[u8]) {
        self.send(&frame(FIN | BINARY, payload)).await;
    }

    /// The next frame: its first byte and payload; `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        within("a frame or the end", self.read_frame()).await
    }

    async fn read_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await.ok()?;
        let length = match self.stream.read_u8().await.ok()? {
            126 => self.stream.read_u16().await.ok()?.into(),
            127 => usize::try_from(self.stream.read_u64().await.ok()?).unwrap(),
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.ok()?;
        Some((first, payload))
    }

    /// Expects a binary frame with these bytes.
    pub(crate) async fn expect(&mut self, payload: &[u8]) {
        assert_eq!(self.frame().await, Some((FIN | BINARY, payload.to_vec())));
    }

    /// Expects Close with this status code, and the end.
    pub(crate) async fn expect_close(&mut self, code: u16) {
        let close = (FIN | CLOSE, code.to_be_bytes().to_vec());
        assert_eq!(self.frame().await, Some(close));
        assert_eq!(self.frame().await, None);
    }
}
