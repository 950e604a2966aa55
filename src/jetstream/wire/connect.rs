//! Making the connection: which server, TLS, who we are, what is subscribed to.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_nats::ServerAddr;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::BytesMut;
use nkeys::KeyPair;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::reading::{Frame, Info, Reading};
use super::{READ_BYTES, Socket, Wire, frame};
use crate::telemetry;

/// Where the servers are, and what is said to them. As the configuration has it, and not what was learnt from a server.
#[derive(Debug)]
pub(in crate::jetstream) struct Access {
    servers: Vec<ServerAddr>,
    credentials: Option<PathBuf>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Access {
    /// To any of these servers.
    pub(in crate::jetstream) fn new(
        servers: Vec<ServerAddr>,
        credentials: Option<PathBuf>,
    ) -> Self {
        Self {
            servers,
            credentials,
            tls: OnceLock::new(),
        }
    }

    /// Connects and subscribes to `filter`; from when this returns on no answer is missed.
    ///
    /// # Errors
    /// Of the last server that was tried: no connection, or what it said.
    pub(in crate::jetstream) async fn connect(&self, filter: &str) -> io::Result<Wire> {
        let mut last = io::Error::other("no server");
        // Not all shards of all nodes at the same one.
        let count = self.servers.len().max(1);
        let first = usize::try_from(telemetry::random_u64() % count as u64).unwrap_or(0);
        for server in self.servers.iter().cycle().skip(first).take(count) {
            match self.connect_to(server, filter).await {
                Ok(wire) => return Ok(wire),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, server: &ServerAddr, filter: &str) -> io::Result<Wire> {
        let addresses: Vec<SocketAddr> = server.socket_addrs().await?.collect();
        let socket = TcpStream::connect(&*addresses).await?;
        socket.set_nodelay(true)?;
        let mut greeting = Greeting {
            socket: Box::new(socket),
            inbound: BytesMut::new(),
            reading: Reading::default(),
        };
        let info = match greeting.next().await? {
            Frame::Info(info) => info,
            other => return Err(io::Error::other(format!("expected INFO, found {other:?}"))),
        };
        if server.tls_required() || info.tls_required {
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
                Frame::Message(_) | Frame::Ok | Frame::Info(_) => {}
            }
        }
        Ok(Wire::new(
            greeting.socket,
            greeting.inbound,
            info.max_payload,
        ))
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

    /// The JSON of CONNECT: with the user name and password, or token, of the URL, else with the credentials file.
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
        match (server.username(), server.password(), &self.credentials) {
            (Some(user), Some(password), _) => {
                add("user", user.to_owned());
                add("pass", password.to_owned());
            }
            (Some(token), None, _) => add("auth_token", token.to_owned()),
            (None, _, Some(file)) => {
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
struct Greeting {
    socket: Box<dyn Socket>,
    inbound: BytesMut,
    reading: Reading,
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

    #[test]
    fn a_url_says_who_we_are() {
        let said = |url: &str| {
            let server: ServerAddr = url.parse().unwrap();
            let line = Access::new(Vec::new(), None).connect_line(&server, &Info::default());
            let said: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            ["user", "pass", "auth_token"].map(|key| said[key].as_str().map(str::to_owned))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(said("nats://h:1"), [None, None, None]);
        assert_eq!(said("nats://u:p@h:1"), [text("u"), text("p"), None]);
        assert_eq!(said("nats://t@h:1"), [None, None, text("t")]);
    }
}
