//! Accept loop of one listening address.
//!
//! A socket beyond the limit is closed at once and counted: refusing is cheap, accepting and starving is not. The limit
//! is never above what the process has descriptors for, of which it takes all that the system allows.

use std::io;
use std::net::{AddrParseError, SocketAddr};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Deserializer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Descriptors that are kept for everything but devices: NATS, database, HTTP.
const DESCRIPTORS_RESERVED: usize = 256;

/// Where and how much to accept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port; port 0 takes any free one.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Connections at the same time; lowered at start to what the process may have descriptors for.
    pub connections_max: usize,
    /// Connections that the kernel holds until they are accepted.
    pub backlog: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 1883)),
            connections_max: 100_000,
            backlog: 4_096,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.connections_max == 0 {
            faults.push("connections_max: expected more than 0".to_owned());
        }
        if self.backlog == 0 {
            faults.push("backlog: expected more than 0".to_owned());
        }
        faults
    }
}

/// Reads an address and a port, with an error that says what one looks like.
///
/// # Errors
/// When it is anything else.
pub fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error: AddrParseError| {
        let expected = "expected ADDRESS:PORT such as 127.0.0.1:1883";
        serde::de::Error::custom(format!("{expected}, found {text:?}: {error}"))
    })
}

/// A bound address that has not accepted anything yet.
pub struct Listener {
    listener: TcpListener,
    connections_max: usize,
    /// Sockets closed because of the limit.
    pub refused: Counter,
}

impl Listener {
    /// Binds, and raises the process's limit of descriptors to all it may have.
    ///
    /// # Errors
    /// The system's, such as an address in use.
    pub fn bind(config: &Config) -> io::Result<Self> {
        let connections_max = affordable(config.connections_max, raise_descriptors());
        if connections_max < config.connections_max {
            tracing::info!(
                wanted = config.connections_max,
                effective = connections_max,
                "connections_max lowered to the system's limit of open files (ulimit -Hn)"
            );
        }
        let socket = Socket::new(
            Domain::for_address(config.listen),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&config.listen.into())?;
        socket.listen(config.backlog.into())?;
        Ok(Self {
            listener: TcpListener::from_std(socket.into())?,
            connections_max,
            refused: Counter::default(),
        })
    }

    /// The address that was bound.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Hands every accepted socket to `on_accept` until `shutdown`; `connections` says how many there are.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        connections: impl Fn() -> usize,
        on_accept: impl Fn(TcpStream, SocketAddr),
    ) {
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok(_) if connections() >= self.connections_max => {
                    self.refused.inc();
                    tracing::debug!(
                        limit = self.connections_max,
                        "connection refused: limit reached"
                    );
                }
                Ok((socket, peer)) => {
                    if let Err(error) = socket.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "socket option refused");
                    }
                    on_accept(socket, peer);
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
