//! Making the connection: which server, TLS, who we are, what is subscribed to.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_nats::ServerAddr;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::BytesMut;
use nkeys::KeyPair;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::frame;
use super::open::{READ_BYTES, Socket, Wire};
use super::reading::{Frame, Info, Reading};
use crate::telemetry;

/// More servers than this are not remembered of what a server names.
const DISCOVERED_MAX: usize = 64;

/// The file that says who we are.
#[derive(Debug, Clone)]
pub(in crate::jetstream) enum Identity {
    /// A JWT and the seed of its key.
    Credentials(PathBuf),
    /// The seed of an nkey.
    Nkey(PathBuf),
}

/// Where the servers are, and what is said to them.
#[derive(Debug)]
pub(in crate::jetstream) struct Access {
    /// As configured.
    servers: Vec<ServerAddr>,
    /// Others of the same cluster, as the server said that was heard last.
    discovered: Mutex<Vec<ServerAddr>>,
    /// Which one is tried next.
    turn: AtomicUsize,
    identity: Option<Identity>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Access {
    /// To any of these servers, and to those that they name.
    pub(in crate::jetstream) fn new(
        servers: Vec<ServerAddr>,
        identity: Option<Identity>,
    ) -> Arc<Self> {
        // Not all nodes at the same one.
        let first = usize::try_from(telemetry::random_u64() % u64::from(u16::MAX)).unwrap_or(0);
        Arc::new(Self {
            servers,
            discovered: Mutex::default(),
            turn: AtomicUsize::new(first),
            identity,
            tls: OnceLock::new(),
        })
    }

    /// Connects and subscribes to `filter`; from when this returns on no answer is missed. Each server that is known is tried
    /// once, for at most `limit`: one that is silent does not hide the others.
    ///
    /// # Errors
    /// Of the last server that was tried: no connection, or what it said.
    pub(in crate::jetstream) async fn connect(
        self: &Arc<Self>,
        filter: &str,
        limit: Duration,
    ) -> io::Result<Wire> {
        let mut servers = self.servers.clone();
        servers.extend(self.discovered().iter().cloned());
        let mut last = io::Error::other("no server");
        // Shards take turns: they are spread over the servers, and who lost one tries another.
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % servers.len().max(1);
        for server in servers.iter().cycle().skip(first).take(servers.len()) {
            match timeout(limit, self.connect_to(server, filter)).await {
                Ok(Ok(wire)) => return Ok(wire),
                Ok(Err(error)) => last = error,
                Err(_elapsed) => last = io::Error::other("no connection in time"),
            }
        }
        Err(last)
    }

    /// Remembers what a server says of its cluster.
    pub(super) fn learn(&self, info: &Info) {
        let address = |server: &ServerAddr| (server.host().to_owned(), server.port());
        let configured: Vec<_> = self.servers.iter().map(address).collect();
        let named = info.connect_urls.iter().filter_map(|url| url.parse().ok());
        let others = named.filter(|server| !configured.contains(&address(server)));
        *self.discovered() = others.take(DISCOVERED_MAX).collect();
    }

    fn discovered(&self) -> MutexGuard<'_, Vec<ServerAddr>> {
        let discovered = self.discovered.lock();
        discovered.unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect_to(self: &Arc<Self>, server: &ServerAddr, filter: &str) -> io::Result<Wire> {
        let addresses: Vec<SocketAddr> = server.socket_addrs().await?.collect();
        let socket = TcpStream::connect(&*addresses).await?;
        socket.set_nodelay(true)?;
        let mut greeting = Greeting {
            socket: Box::new(socket),
            inbound: BytesMut::new(),
            reading: Reading::default(),
        };
        let mut info = match greeting.next().await? {
            Frame::Info(info) => info,
            other => return Err(io::Error::other(format!("expected INFO, found {other:?}"))),
        };
        // Also to a server that was only named: its name came with no word about TLS.
        if info.tls_required || self.servers.iter().any(ServerAddr::tls_required) {
            if !greeting.inbound.is_empty() {
                return Err(io::Error::other("expected nothing between INFO and TLS"));
            }
            greeting.socket = self.secured(greeting.socket, server.host()).await?;
        }
        let connect = self.connect_line(server, &info)?;
        let hello = format!("CONNECT {connect}\r\nSUB {filter} 1\r\n");
        greeting.socket.write_all(hello.as_bytes()).await?;
        greeting.socket.write_all(frame::PING).await?;
        greeting.socket.flush().await?;
        loop {
            match greeting.next().await? {
                // The answer to the PING: everything before it was taken.
                Frame::Pong => break,
                Frame::Ping => greeting.socket.write_all(frame::PONG).await?,
                Frame::Error(words) => return Err(io::Error::other(words)),
                // An account may have limits of its own.
                Frame::Info(newer) => info = newer,
                Frame::Message(_) | Frame::Ok => {}
            }
        }
        self.learn(&info);
        Ok(Wire::new(greeting, &info, Arc::clone(self)))
    }

    async fn secured(&self, socket: Box<dyn Socket>, host: &str) -> io::Result<Box<dyn Socket>> {
        let config = self.tls.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let config = ClientConfig::builder().with_root_certificates(roots);
            Arc::new(config.with_no_client_auth())
        });
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(config));
        Ok(Box::new(connector.connect(name, socket).await?))
    }

    /// The JSON of CONNECT: with the user name and password, or token, of the URL, else by the file. A server
    /// that was only named is told what the first one with a user name is.
    fn connect_line(&self, server: &ServerAddr, info: &Info) -> io::Result<String> {
        let mut connect = json!({
            "verbose": false,
            "pedantic": false,
            "lang": "rust",
            "version": env!("CARGO_PKG_VERSION"),
            "name": "jetway publisher",
            "protocol": 1,
            "headers": true,
            "no_responders": true,
            "echo": true,
        });
        let mut add = |key: &str, value: String| {
            if let Some(object) = connect.as_object_mut() {
                object.insert(key.to_owned(), value.into());
            }
        };
        let known = |server: &&ServerAddr| server.username().is_some();
        let server = std::iter::once(server).chain(&self.servers).find(known);
        let user = server.and_then(ServerAddr::username);
        let password = server.and_then(ServerAddr::password);
        match (user, password, &self.identity) {
            (Some(user), Some(password), _) => {
                add("user", user.to_owned());
                add("pass", password.to_owned());
            }
            (Some(token), None, _) => add("auth_token", token.to_owned()),
            (None, _, Some(Identity::Nkey(file))) => {
                let seed = std::fs::read_to_string(file)?;
                let key = KeyPair::from_seed(seed.trim()).map_err(io::Error::other)?;
                let signature = key.sign(info.nonce.as_bytes()).map_err(io::Error::other)?;
                add("nkey", key.public_key());
                add("sig", URL_SAFE_NO_PAD.encode(signature));
            }
            (None, _, Some(Identity::Credentials(file))) => {
                let text = std::fs::read_to_string(file)?;
                let (jwt, seed) = decorated(&text)?;
                let key = KeyPair::from_seed(seed).map_err(io::Error::other)?;
                let signature = key.sign(info.nonce.as_bytes()).map_err(io::Error::other)?;
                add("jwt", jwt.to_owned());
                add("sig", URL_SAFE_NO_PAD.encode(signature));
            }
            (None, _, None) => {}
        }
        Ok(connect.to_string())
    }
}

/// JWT and seed of a credentials file: each the line behind a line of dashes that begins it.
fn decorated(text: &str) -> io::Result<(&str, &str)> {
    let mut parts = text.lines().map(str::trim).scan(false, |opened, line| {
        let is_dashes = line.starts_with("---");
        let is_part = *opened && !is_dashes && !line.is_empty();
        *opened = is_dashes && !line.contains("END");
        Some(is_part.then_some(line))
    });
    let mut part = || parts.find_map(|line| line);
    match (part(), part()) {
        (Some(jwt), Some(seed)) => Ok((jwt, seed)),
        _ => Err(io::Error::other(
            "credentials file: expected a JWT and a seed",
        )),
    }
}

/// A connection that is being made.
pub(super) struct Greeting {
    pub(super) socket: Box<dyn Socket>,
    pub(super) inbound: BytesMut,
    pub(super) reading: Reading,
}

impl Greeting {
    async fn next(&mut self) -> io::Result<Frame> {
        use tokio::io::AsyncReadExt as _;
        loop {
            if let Some(frame) = self.reading.next(&mut self.inbound)? {
                return Ok(frame);
            }
            self.inbound.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.inbound).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-----BEGIN NATS USER JWT-----\neyJ0.e30.x_-\n------END NATS USER JWT------\n\n\
        ************************* IMPORTANT *************************\nNKEY Seed printed below can be used to sign and prove identity.\n\n\
        -----BEGIN USER NKEY SEED-----\nSUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n------END USER NKEY SEED------\n";

    #[test]
    fn a_credentials_file_has_a_jwt_and_a_seed() {
        let (jwt, seed) = decorated(FILE).unwrap();
        assert_eq!(jwt, "eyJ0.e30.x_-");
        KeyPair::from_seed(seed).unwrap();
        assert_eq!(decorated(&FILE.replace('\n', "\r\n")).unwrap(), (jwt, seed));
        decorated("nothing").unwrap_err();
    }

    fn server(url: &str) -> ServerAddr {
        url.parse().unwrap()
    }

    #[test]
    fn servers_that_a_server_names_are_known_beside_the_configured_ones() {
        let access = Access::new(vec![server("nats://u:p@10.0.0.1:4222")], None);
        let urls = ["10.0.0.1:4222", "10.0.0.2:4222", "no port: x", "[::1]:4223"];
        let info = Info {
            connect_urls: urls.map(str::to_owned).into(),
            ..Info::default()
        };
        access.learn(&info);
        let found = access.discovered().clone();
        assert_eq!(found, ["10.0.0.2:4222", "[::1]:4223"].map(server));
        let line = access.connect_line(&found[0], &info).unwrap();
        assert!(line.contains(r#""user":"u""#), "{line}");
        access.learn(&Info::default());
        assert!(access.discovered().is_empty());
    }

    #[test]
    fn a_url_says_who_we_are() {
        let said = |url: &str| {
            let access = Access::new(vec![server(url)], None);
            let line = access.connect_line(&server(url), &Info::default());
            let said: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            ["user", "pass", "auth_token"].map(|key| said[key].as_str().map(str::to_owned))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(said("nats://h:1"), [None, None, None]);
        assert_eq!(said("nats://u:p@h:1"), [text("u"), text("p"), None]);
        assert_eq!(said("nats://t@h:1"), [None, None, text("t")]);
    }
}
