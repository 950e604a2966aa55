//! A real Redis of one test's own, or of one test program: free port, temporary data folder, gone when dropped.

use std::ops::Deref;

use super::port::free_ports;
use super::server::{Program, Server, own_name};

/// A running Redis; [`Server`] has what can be done to its processes.
pub struct Redis {
    server: Server,
    password: String,
    port: u16,
}

impl Redis {
    /// Starts one that writes its append-only file, but does not wait for the disk: it survives its own crash.
    pub async fn start() -> Self {
        Self::start_with(&["--appendfsync", "no"]).await
    }

    /// Starts one that keeps what it confirmed.
    pub async fn start_durable() -> Self {
        Self::start_with(&["--appendfsync", "always"]).await
    }

    /// Starts one with these options.
    pub async fn start_with(options: &[&str]) -> Self {
        let redis = Self::started(options);
        let ready = async || redis.connect().await;
        redis.server.listens(ready).await;
        redis
    }

    fn started(options: &[&str]) -> Self {
        let [port] = free_ports();
        let password = own_name();
        let text = port.to_string();
        let own = [
            "redis-server",
            "--bind",
            "127.0.0.1",
            "--port",
            &text,
            "--requirepass",
            &password,
            "--appendonly",
            "yes",
            "--save",
            "",
        ];
        let program = Program {
            name: "Redis",
            stop: "KILL",
            command: own.iter().chain(options).map(Into::into).collect(),
            environment: Vec::new(),
        };
        Self {
            server: Server::start(tempfile::tempdir().unwrap(), program),
            password,
            port,
        }
    }

    /// `redis://…` with its password.
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}/", self.password, self.port)
    }

    /// Its port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it if it runs, and starts it again on its port and data; returns when it is ready.
    pub async fn restart(&self) {
        self.server.restart(async || self.connect().await).await;
    }

    async fn connect(&self) -> Result<(), String> {
        let client = redis::Client::open(self.url()).unwrap();
        let connected = client.get_multiplexed_async_connection().await;
        let mut connection = connected.map_err(|error| error.to_string())?;
        let pong = redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await;
        pong.map(drop).map_err(|error| error.to_string())
    }
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
