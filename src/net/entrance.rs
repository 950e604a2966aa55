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
use super::{Error, proxy, websocket};

/// Encrypted bytes that TLS keeps for a peer that does not take them.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// What a listener wants before MQTT.
#[derive(Debug)]
pub(super) struct Entrance {
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

impl Accepted {
    /// The byte stream that carries MQTT and the peer's address: the one that a proxy announced, or that of the socket;
    /// none for a Unix socket. Waits for the peer as long as it likes; the caller has the deadline.
    ///
    /// # Errors
    /// What the peer did not do. A WebSocket client has its HTTP answer by then.
    pub async fn open(self) -> Result<(Socket, Option<SocketAddr>), Error> {
        let Self {
            mut socket,
            mut peer,
            entrance,
        } = self;
        if entrance.proxy_protocol
            && let Some(announced) = proxy::read_header(&mut socket).await?
        {
            peer = Some(announced);
        }
        if let Some(tls) = &entrance.tls {
            let stream = shake_hands(tls, socket).await.map_err(Error::Tls)?;
            socket = Socket::Tls(Box::new(stream));
        }
        if entrance.websocket {
            websocket::upgrade(&mut socket).await?;
            socket = Socket::WebSocket(Box::new(websocket::WebSocket::new(socket)));
        }
        Ok((socket, peer))
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
