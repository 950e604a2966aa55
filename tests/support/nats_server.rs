//! A real nats-server of one test's own: free port, temporary store, gone when dropped.

use std::fs;
use std::path::PathBuf;

use jetway::cli::dev::nats_server::{self, Options};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::port::free_ports;
use super::wait::{eventually, within};

/// A running nats-server with JetStream.
pub struct NatsServer {
    server: nats_server::NatsServer,
    state_dir: TempDir,
}

impl NatsServer {
    /// Starts one on a free port with an empty store.
    pub async fn start() -> Self {
        Self::start_binary(binary().await).await
    }

    /// Starts this program as [`start`](Self::start) starts the one of the gateway's tests.
    pub async fn start_binary(binary: PathBuf) -> Self {
        let state_dir = tempfile::tempdir().unwrap();
        let [port] = free_ports();
        let options = Options {
            binary,
            state_dir: state_dir.path().to_owned(),
            port,
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

    /// Stops its process for a while (SIGSTOP): its connections stay open and nothing is answered, from when this
    /// returns on.
    pub async fn pause(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        eventually("nats-server is stopped", async || {
            match waitid(WaitId::Pid(self.process()), stopped) {
                Ok(Some(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).unwrap();
    }

    fn process(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap()
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
pub async fn binary() -> PathBuf {
    static BINARY: OnceCell<PathBuf> = OnceCell::const_new();
    let locate = async || {
        let cache_dir = nats_server::default_cache_dir();
        nats_server::locate(&cache_dir).await.unwrap()
    };
    BINARY.get_or_init(locate).await.clone()
}
