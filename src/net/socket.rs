//! One byte stream for every transport, made of layers: TLS and WebSocket carry another socket inside.
//!
//! Plain TCP is the smallest and most frequent, so the other layers are boxed and add nothing to its size.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::websocket::WebSocket;

/// The bytes of one connection.
#[derive(Debug)]
pub enum Socket {
    /// The bare socket.
    Tcp(TcpStream),
    /// A client on this machine.
    Unix(Box<UnixStream>),
    /// Encrypted.
    Tls(Box<TlsStream<Self>>),
    /// In binary WebSocket frames.
    WebSocket(Box<WebSocket<Self>>),
    /// None any more.
    Closed,
}

/// Calls the same method of whichever layer it is.
macro_rules! delegate {
    ($socket:expr, $method:ident($($argument:expr),*)) => {
        match $socket.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).$method($($argument),*),
            Self::Unix(socket) => Pin::new(socket).$method($($argument),*),
            Self::Tls(socket) => Pin::new(socket).$method($($argument),*),
            Self::WebSocket(socket) => Pin::new(socket).$method($($argument),*),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        !matches!(self, Self::WebSocket(_))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_transports_cost_a_plain_connection_nothing() {
        assert_eq!(size_of::<Socket>(), size_of::<TcpStream>());
    }
}
