//! Keeps a nats-server running: one that dies is started again on its port and store, with growing pauses.
//!
//! It never gives up; the gateway holds its devices meanwhile, as with any NATS outage.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::cli::dev::nats_server::NatsServer;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A server that ran this long is healthy again: the next pause is the shortest.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// Runs a server until it is told to stop it.
#[derive(Debug)]
pub struct Supervisor {
    server: NatsServer,
}

impl Supervisor {
    /// Takes over a server that was started.
    #[must_use]
    pub fn new(server: NatsServer) -> Self {
        Self { server }
    }

    /// Restarts the server whenever it ends; stops it when `shutdown` is cancelled, and then returns.
    ///
    /// Cancel `shutdown` after everything that uses the server has ended.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.keep_running()).await;
        match self.server.stop().await {
            Ok(status) => info!(%status, "nats-server stopped"),
            Err(error) => error!(%error, "nats-server did not stop"),
        }
    }

    async fn keep_running(&mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let started = Instant::now();
            let pid = self.server.pid();
            match self.server.wait().await {
                Ok(status) => warn!(pid, %status, "nats-server ended, starting it again"),
                Err(error) => warn!(pid, %error, "nats-server ended, starting it again"),
            }
            if started.elapsed() > HEALTHY_AFTER {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            while let Err(error) = self.server.restart().await {
                pause = PAUSE_MAX.min(pause * 2);
                error!(%error, ?pause, "nats-server does not start");
                sleep(pause).await;
            }
            pause = PAUSE_MAX.min(pause * 2);
            info!(pid = self.server.pid(), url = %self.server.url(), "nats-server runs again");
        }
    }
}
