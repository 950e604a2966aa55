//! What a socket holds back still leaves: TLS takes bytes that the network has no room for yet.

use std::future::poll_fn;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use socket2::SockRef;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::mqtt::{Publish, QoS, Version};

/// A certificate that vouches for itself, and its key.
fn certificate(folder: &Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "1"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=test"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args([Path::new("-out"), &certificate, Path::new("-keyout"), &key])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    (certificate, PrivateKeyDer::from_pem_file(key).unwrap())
}

fn configs(folder: &Path) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (certificate, key) = certificate(folder);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server.unwrap()), Arc::new(client))
}

/// The two ends of a TLS connection through which few bytes fit at a time.
async fn narrow(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
) -> (Wire, TlsStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connect = async {
        let socket = TcpStream::connect(address).await.unwrap();
        SockRef::from(&socket)
            .set_recv_buffer_size(32 * 1024)
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(client);
        connector.connect(name, socket).await.unwrap()
    };
    let accept = async {
        let (socket, _) = listener.accept().await.unwrap();
        SockRef::from(&socket)
            .set_send_buffer_size(16 * 1024)
            .unwrap();
        let acceptor = TlsAcceptor::from(server);
        acceptor.accept(Socket::Tcp(socket)).await.unwrap()
    };
    let (accepted, connected) = tokio::join!(accept, connect);
    let mut wire = Wire::new(Socket::Tls(Box::new(accepted)), u32::MAX);
    wire.codec.set_version(Version::V3_1_1);
    (wire, connected)
}

#[tokio::test]
async fn bytes_that_tls_holds_back_are_still_to_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = configs(folder.path());
    // One of the sizes ends just when the network is full and TLS is not.
    for kilobytes in (4..132).step_by(8) {
        let (mut wire, mut client) = narrow(Arc::clone(&server), Arc::clone(&client)).await;
        let publish = Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: "t".into(),
            packet_id: None,
            properties: Default::default(),
            payload: Bytes::from(vec![7; kilobytes * 1024]),
        };
        wire.send(&Packet::Publish(publish)).unwrap();
        let mut found = vec![0; wire.outbound_bytes()];
        // Written as far as it goes before anything is read.
        let write = async {
            while wire.wants_write() {
                poll_fn(|context| wire.poll_write(context)).await.unwrap();
            }
        };
        let read = async { timeout(Duration::from_secs(5), client.read_exact(&mut found)).await };
        let ((), read) = tokio::join!(biased; write, read);
        let read = read.unwrap_or_else(|_| panic!("{kilobytes} KiB did not arrive"));
        assert_eq!(read.unwrap(), found.len());
        assert!(!wire.wants_write());
    }
}
