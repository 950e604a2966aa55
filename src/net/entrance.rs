//! From an accepted socket to the byte stream that carries MQTT: PROXY header, TLS handshake, WebSocket upgrade.
//!
//! All of it waits for the peer, so it runs in the connection's own task and under its deadline, never in the accept loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::tls::Tls;
use super::{Error, certificate, proxy, websocket};
use crate::device::Certificate;

/// Encrypted bytes that TLS keeps for a peer that does not take them.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// What a listener wants before MQTT.
#[derive(Debug)]
pub(super) struct Entrance {
    /// What the listener is called in messages.
    pub(super) listener: Box<str>,
    pub(super) proxy_protocol: bool,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) websocket: bool,
}

/// A socket that was accepted and not read from yet.
#[derive(Debug)]
pub struct Accepted {
    pub(super) socket: Socket,
    pub(super) peer: Option<SocketAddr>,
    pub(super) entrance: Arc<Entrance>,
}

/// Where a connection comes from.
#[derive(Debug)]
pub struct Origin {
    entrance: Arc<Entrance>,
    /// The peer's address: the one that a proxy announced, or that of the socket; none for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The peer's certificate, if it has one that the listener's CAs answer for.
    pub certificate: Option<Box<Certificate>>,
}

impl Origin {
    /// The listener's address or path, with the port that the system chose if it was to.
    #[must_use]
    pub fn listener(&self) -> &str {
        &self.entrance.listener
    }
}

impl Accepted {
    /// The peer's address: the one that a proxy announced, or that of the socket; none for a Unix socket. Comes first, before
    /// anything is computed for the peer.
    ///
    /// # Errors
    /// The listener expects a proxy's header, and there is none.
    pub async fn identify(&mut self) -> Result<Option<SocketAddr>, Error> {
        if self.entrance.proxy_protocol
            && let Some(announced) = proxy::read_header(&mut self.socket).await?
        {
            self.peer = Some(announced);
        }
        Ok(self.peer)
    }

    /// The byte stream that carries MQTT, and where it comes from. Waits for the peer as long as it likes; the caller has the deadline.
    ///
    /// # Errors
    /// What the peer did not do. A WebSocket client has its HTTP answer by then.
    pub async fn open(self) -> Result<(Socket, Box<Origin>), Error> {
        let Self {
            mut socket,
            peer,
            entrance,
        } = self;
        let mut certificate = None;
        if let Some(tls) = &entrance.tls {
            let stream = shake_hands(tls, socket).await.map_err(Error::Tls)?;
            let chain = stream.get_ref().1.peer_certificates();
            certificate = chain
                .and_then(<[_]>::first)
                .map(|leaf| Box::new(certificate::read(leaf)));
            socket = Socket::Tls(Box::new(stream));
        }
        if entrance.websocket {
            websocket::upgrade(&mut socket).await?;
            socket = Socket::WebSocket(Box::new(websocket::WebSocket::new(socket)));
        }
        let origin = Box::new(Origin {
            entrance,
            peer,
            certificate,
        });
        Ok((socket, origin))
    }
}

/// The TLS handshake of one connection. What is dear in it is the answer to the client's first message, a key exchange and a
/// signature: of a storm only a few are computed at a time, so that connected devices wait behind those few and not behind all.
/// Nobody waits for a peer in its turn.
async fn shake_hands(tls: &Tls, socket: Socket) -> io::Result<TlsStream<Socket>> {
    let hello = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let turn = tls.turn().await;
    let accept = hello.into_stream_with(tls.config(), |connection| {
        connection.set_buffer_limit(Some(BUFFER_BYTES_MAX));
    });
    drop(turn);
    accept.await
}
