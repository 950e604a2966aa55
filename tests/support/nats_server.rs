//! A real nats-server of one test's own: free port, temporary store, gone when dropped.

use std::fs;

use jetway::cli::dev::nats_server::{self, Options};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::wait::within;

/// A running nats-server with JetStream.
pub struct NatsServer {
    server: nats_server::NatsServer,
    state_dir: TempDir,
}

impl NatsServer {
    /// Starts one on a free port with an empty store.
    pub async fn start() -> Self {
        let state_dir = tempfile::tempdir().unwrap();
        let options = Options {
            binary: binary().await,
            state_dir: state_dir.path().to_owned(),
            port: 0,
        };
        let server = nats_server::NatsServer::start(options).await.unwrap();
        Self { server, state_dir }
    }

    /// `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Its process id, a new one after each restart.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Kills it as a crash would; returns when it is gone.
    pub async fn kill9(&mut self) {
        within("nats-server to be gone", self.server.kill())
            .await
            .unwrap();
    }

    /// Stops it in good order; returns when it is gone.
    pub async fn stop(&mut self) {
        within("nats-server to stop", self.server.stop())
            .await
            .unwrap();
    }

    /// Starts it again on its port and store; returns when it is ready.
    pub async fn restart(&mut self) {
        self.server.restart().await.unwrap();
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.server.log_file()).unwrap_or_default();
            eprintln!("--- log of nats-server {}:\n{log}---", self.server.url());
        }
    }
}

/// The nats-server program; found, or downloaded, once per test program.
pub async fn binary() -> std::path::PathBuf {
    static BINARY: OnceCell<std::path::PathBuf> = OnceCell::const_new();
    let locate = async || {
        let cache_dir = nats_server::default_cache_dir();
        nats_server::locate(&cache_dir).await.unwrap()
    };
    BINARY.get_or_init(locate).await.clone()
}
