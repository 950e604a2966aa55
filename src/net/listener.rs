//! Accept loop of one listening address or Unix socket.
//!
//! A socket beyond a limit is closed at once and counted: refusing is cheap, accepting and starving is not. The limit of all
//! is never above what the process has descriptors for, of which it takes all that the system allows.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use socket2::{Domain, SockAddr, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::config::{Config, ListenerConfig, Transport};
use super::entrance::{Accepted, Entrance};
use super::socket::Socket;
use super::tls::Tls;

/// Descriptors that are kept for everything but devices: NATS, database, HTTP.
const DESCRIPTORS_RESERVED: usize = 256;

/// Where a listener is bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// Address and port, with the port that the system chose if it was to.
    Listen(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A listener as others are told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Where it is.
    #[serde(flatten)]
    pub address: Address,
    /// What is spoken there.
    pub transport: Transport,
}

/// How many connections there are.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// Of this listener.
    pub own: usize,
    /// Of all listeners.
    pub all: usize,
}

/// A bound address that has not accepted anything yet.
pub struct Listener {
    acceptor: Acceptor,
    entrance: Arc<Entrance>,
    bound: Bound,
    connections_max: Connections,
}

enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, gone with its listener.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "socket file not removed");
        }
    }
}

impl Listener {
    /// Binds. `connections_max` is the limit of all listeners together, from [`connections_max`].
    ///
    /// # Errors
    /// The system's, such as an address in use; or the faults of the certificate.
    pub fn bind(config: &ListenerConfig, backlog: u16, connections_max: usize) -> io::Result<Self> {
        let acceptor = match (&config.listen, &config.unix) {
            (Some(address), _) => Acceptor::Tcp(bind_tcp(*address, backlog)?),
            (None, Some(path)) => {
                let listener = bind_unix(path, backlog)?;
                Acceptor::Unix(listener, SocketFile(path.clone()))
            }
            (None, None) => return Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        let address = match &acceptor {
            Acceptor::Tcp(listener) => Address::Listen(listener.local_addr()?),
            Acceptor::Unix(_, file) => Address::Unix(file.0.clone()),
        };
        let files = config.files();
        let tls = files.map(|files| Tls::new(address.to_string(), files));
        let tls = tls.transpose();
        let tls = tls.map_err(|faults| io::Error::other(faults.join("; ")))?;
        Ok(Self {
            acceptor,
            entrance: Arc::new(Entrance {
                listener: address.to_string().into(),
                proxy_protocol: config.proxy_protocol,
                tls: tls.map(Arc::new),
                websocket: config.transport.is_websocket(),
            }),
            bound: Bound {
                address,
                transport: config.transport,
            },
            connections_max: Connections {
                own: config.connections_max.unwrap_or(usize::MAX),
                all: connections_max,
            },
        })
    }

    /// Where it is bound, and what is spoken there.
    #[must_use]
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Its certificate, if it has one.
    #[must_use]
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.entrance.tls.as_ref()
    }

    /// Hands every accepted socket to `on_accept` until `shutdown`; `connections` says how many there are, `refused` counts
    /// those above a limit.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        refused: Counter,
        connections: impl Fn() -> Connections,
        on_accept: impl Fn(Accepted),
    ) {
        let limit = self.connections_max;
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = self.acceptor.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let now = connections();
                    if now.own >= limit.own || now.all >= limit.all {
                        refused.inc();
                        tracing::debug!(listener = %self.bound.address, ?limit, "connection refused: limit reached");
                        continue;
                    }
                    on_accept(Accepted {
                        socket,
                        peer,
                        entrance: Arc::clone(&self.entrance),
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept, most likely out of descriptors");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Acceptor {
    /// The next socket and its peer's address; a Unix socket has none.
    async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%peer, %error, "socket option refused");
                }
                Ok((Socket::Tcp(socket), Some(peer)))
            }
            Self::Unix(listener, _) => {
                let (socket, _) = listener.accept().await?;
                Ok((Socket::Unix(Box::new(socket)), None))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr, backlog: u16) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog.into())?;
    TcpListener::from_std(socket.into())
}

fn bind_unix(path: &Path, backlog: u16) -> io::Result<UnixListener> {
    // A socket file at which nobody listens is what a crash left behind. Any other file stays, and is in the way.
    let is_socket = path
        .metadata()
        .is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(backlog.into())?;
    UnixListener::from_std(socket.into())
}

/// The limit of all listeners together: what was asked for, lowered to what the process may have descriptors for. Raises its
/// limit of descriptors to all it may have.
#[must_use]
pub fn connections_max(config: &Config) -> usize {
    let effective = affordable(config.connections_max, raise_descriptors());
    if effective < config.connections_max {
        tracing::info!(
            wanted = config.connections_max,
            effective,
            "connections_max lowered to the system's limit of open files (ulimit -Hn)"
        );
    }
    effective
}

/// Raises the soft limit of descriptors, which most systems start a process with at 1,024, to the hard one, and returns
/// what there is then; `None`: no limit.
fn raise_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of descriptors cannot be raised");
            limit.current
        }
    }
}

/// How many of the wanted connections so many descriptors are enough for, at least one.
fn affordable(wanted: usize, descriptors: Option<u64>) -> usize {
    let descriptors = descriptors.map_or(usize::MAX, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    });
    wanted.min(descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(1))
}

/// A peer that vanished between its SYN and our accept says nothing about the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_no_more_than_descriptors() {
        for (wanted, descriptors, expected) in [
            (100_000, None, 100_000),
            (100_000, Some(1_048_576), 100_000),
            (100_000, Some(20_000), 19_744),
            (10, Some(1_024), 10),
            (10, Some(100), 1),
        ] {
            assert_eq!(affordable(wanted, descriptors), expected);
        }
    }
}
