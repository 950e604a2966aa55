//! Sockets of devices: listeners accept them; what a listener wants before MQTT is done in the connection's own task.
//!
//! `listener` binds and accepts, `entrance` opens an accepted socket (PROXY header, then TLS, then WebSocket), `socket` is
//! the byte stream that comes out of it, the same type for every transport, and `certificate` what a peer's certificate says. `post` is the way out, for those who have something to tell.

mod certificate;
mod config;
mod entrance;
pub mod listener;
pub mod post;
mod proxy;
mod renewal;
mod socket;
pub mod tls;
mod websocket;

use std::io;

pub use config::{ClientCertificate, Config, ListenerConfig, Transport, address, some_address};
pub use entrance::{Accepted, Origin};
pub use listener::{Address, Bound, Connections, Listener};
pub use renewal::Renewal;
pub use socket::Socket;

/// Why an accepted socket carries no MQTT.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener expects a PROXY protocol header, and this is none.
    #[error("PROXY protocol header: {0}")]
    Proxy(&'static str),
    /// The TLS handshake failed.
    #[error("TLS handshake")]
    Tls(#[source] io::Error),
    /// The HTTP request is no upgrade to MQTT over WebSocket.
    #[error("WebSocket upgrade: {0}")]
    WebSocket(&'static str),
    /// The peer is gone.
    #[error("socket")]
    Closed(#[from] io::Error),
}
