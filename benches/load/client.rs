//! A device: one socket and the project's own codec, as cheap as a client can be.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::{Buf as _, Bytes, BytesMut};
use jetway::auth::credentials::Credentials;
use jetway::mqtt::{Codec, Connect, ConnectProperties, Packet, ReasonCode, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Larger than any packet that the gateway sends here.
const PACKET_BYTES_MAX: u32 = 64 * 1024;

/// A connected device.
pub(crate) struct Client {
    socket: TcpStream,
    codec: Codec,
    inbound: BytesMut,
    outbound: BytesMut,
}

impl Client {
    /// Connects with MQTT 3.1.1, which most devices in the field speak, and waits for the CONNACK.
    pub(crate) async fn connect(address: SocketAddr, credentials: &Credentials) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut client = Self {
            socket,
            codec: Codec::new(PACKET_BYTES_MAX),
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
        };
        client.send(&Packet::Connect(Box::new(Connect {
            version: Version::V3_1_1,
            clean_start: true,
            keep_alive: 0,
            client_id: credentials.client_id.as_str().into(),
            username: Some(credentials.username.as_str().into()),
            password: Some(Bytes::from(credentials.password.clone())),
            will: None,
            properties: ConnectProperties::default(),
        })))?;
        client.codec.set_version(Version::V3_1_1);
        client.flush().await?;
        match client.next().await? {
            Packet::Connack(connack) if connack.reason == ReasonCode::Success => {}
            packet => bail!("expected CONNACK with 0x00, found {packet:?}"),
        }
        // What an idle device needs no more.
        client.inbound = BytesMut::new();
        Ok(client)
    }

    /// Puts a packet behind what [`Self::flush`] writes.
    pub(crate) fn send(&mut self, packet: &Packet) -> Result<()> {
        Ok(self.codec.encode(packet, &mut self.outbound)?)
    }

    /// Writes everything.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.socket.write_all(&self.outbound).await?;
        self.outbound.advance(self.outbound.len());
        Ok(())
    }

    /// The next packet, waited for.
    pub(crate) async fn next(&mut self) -> Result<Packet> {
        loop {
            if let Some(packet) = self.buffered()? {
                return Ok(packet);
            }
            self.inbound.reserve(1024);
            if self.socket.read_buf(&mut self.inbound).await? == 0 {
                bail!("the gateway closed the connection");
            }
        }
    }

    /// The next packet that is here already.
    pub(crate) fn buffered(&mut self) -> Result<Option<Packet>> {
        let packet = self.codec.decode(&mut self.inbound);
        packet.context("what the gateway sent")
    }
}
