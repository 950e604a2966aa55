//! A device: one socket and the project's own codec, as cheap as a client can be.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf as _, BytesMut};
use bytestring::ByteString;
use jetway::mqtt::{
    Codec, Connect, ConnectProperties, Packet, PacketId, QoS, ReasonCode, Subscribe, Subscription,
    TopicFilter, UserProperties, Version,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Larger than any packet that a server sends here.
const PACKET_BYTES_MAX: u32 = 1024 * 1024;

/// Longer than devices here are silent: they send no PINGREQ. None at all is refused by rumqttd.
const KEEP_ALIVE_S: u16 = 1_200;

/// Either end of a socket.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Where and how devices connect.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(crate) version: Version,
}

/// TLS to a server.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// Who a device is.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) client_id: String,
    /// User name and password.
    pub(crate) proof: Option<(String, String)>,
}

/// A connected device.
pub(crate) struct Client {
    socket: Box<dyn Stream>,
    codec: Codec,
    inbound: BytesMut,
    outbound: BytesMut,
}

impl Tls {
    /// Trusts the certificates in this file only.
    pub(crate) fn trusting(file: &Path, name: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).context("CA file")? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from(name.to_owned())?,
        })
    }
}

impl Client {
    /// Connects with a clean start, and waits for the CONNACK.
    pub(crate) async fn connect(server: &Server, login: &Login) -> Result<Self> {
        let socket = TcpStream::connect(server.address).await?;
        socket.set_nodelay(true)?;
        let socket: Box<dyn Stream> = match &server.tls {
            None => Box::new(socket),
            Some(Tls { connector, name }) => {
                Box::new(connector.connect(name.clone(), socket).await?)
            }
        };
        let mut client = Self {
            socket,
            codec: Codec::new(PACKET_BYTES_MAX),
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
        };
        let proof = login.proof.clone();
        let (username, password) = proof.unzip();
        client.send(&Packet::Connect(Box::new(Connect {
            version: server.version,
            clean_start: true,
            keep_alive: KEEP_ALIVE_S,
            client_id: login.client_id.as_str().into(),
            username: username.map(Into::into),
            password: password.map(Into::into),
            will: None,
            properties: ConnectProperties::default(),
        })))?;
        client.codec.set_version(server.version);
        client.flush().await?;
        match client.next().await? {
            Packet::Connack(connack) if connack.reason == ReasonCode::Success => {}
            packet => bail!("expected CONNACK with 0x00, found {packet:?}"),
        }
        // What an idle device needs no more.
        client.inbound = BytesMut::new();
        Ok(client)
    }

    /// Subscribes to one filter and waits for the SUBACK.
    pub(crate) async fn subscribe(&mut self, filter: &str, qos: QoS) -> Result<()> {
        self.send(&Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(u16::MAX).context("a packet identifier")?,
            identifier: None,
            filters: vec![Subscription {
                filter: TopicFilter::try_from(ByteString::from(filter))?,
                qos,
                no_local: false,
                retain_as_published: false,
                retain_handling: 0,
            }],
            user: UserProperties::default(),
        }))?;
        self.flush().await?;
        let Packet::Suback(suback) = self.next().await? else {
            bail!("expected SUBACK");
        };
        let refused = suback.reasons.iter().find(|reason| reason.is_error());
        ensure!(refused.is_none(), "subscription to {filter}: {refused:?}");
        Ok(())
    }

    /// Puts a packet behind what [`Self::flush`] writes.
    pub(crate) fn send(&mut self, packet: &Packet) -> Result<()> {
        Ok(self.codec.encode(packet, &mut self.outbound)?)
    }

    /// Writes everything.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.socket.write_all(&self.outbound).await?;
        self.socket.flush().await?;
        self.outbound.advance(self.outbound.len());
        Ok(())
    }

    /// The next packet, waited for. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Packet> {
        loop {
            if let Some(packet) = self.buffered()? {
                return Ok(packet);
            }
            self.inbound.reserve(1024);
            if self.socket.read_buf(&mut self.inbound).await? == 0 {
                bail!("the server closed the connection");
            }
        }
    }

    /// The next packet that is here already.
    pub(crate) fn buffered(&mut self) -> Result<Option<Packet>> {
        let packet = self.codec.decode(&mut self.inbound);
        packet.context("what the server sent")
    }
}
