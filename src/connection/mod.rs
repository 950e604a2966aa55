//! One task per device: socket + codec + session. `handshake` lets it in, `admitting` says whether, with `login` and
//! `authentication`, and `refused` tells who is not; `registering` serves who has no secret yet. `driver` runs it with `inbound`, `outbound` with `pending`,
//! `keeping`, `protecting` and `reauthentication`, `ending` takes it apart, `wire` is its socket, `behind` are the sub-devices of a gateway
//! device. `afterlife` speaks for devices that have no connection; `revocation`, `rechecking` and `permission` tell connections what changed in
//! the catalogue.
//!
//! The task is a loop without protocol: it waits for one event, tells the session, does what the session says. It owns
//! everything of its connection; others reach it through its mailbox only.

mod admitting;
pub mod afterlife;
mod asking;
mod attachment;
mod authentication;
mod behind;
mod config;
mod driver;
mod ending;
mod goodbye;
mod handshake;
mod inbound;
mod keeping;
mod login;
mod metrics;
mod outbound;
mod pending;
pub mod permission;
mod place;
mod protecting;
mod reading;
mod reauthentication;
pub mod rechecking;
mod refused;
mod registering;
mod releasing;
pub mod revocation;
mod shared;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

pub use config::Config;
pub use metrics::Metrics;
pub use revocation::Recent;
pub use shared::Shared;

use crate::net::Accepted;

/// Serves one accepted socket to its end. `shutdown` ends handshakes only; a live connection is told through its mailbox.
pub fn serve(
    shared: Arc<Shared>,
    accepted: Accepted,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
    // Boxed, and with all that it needs, so that a live connection does not carry the handshake's state along.
    let handshake = Box::pin(async move {
        let driver = handshake::handshake(&shared, accepted, number, &shutdown).await?;
        if shutdown.is_cancelled() {
            // The drain may have called all connections just before this one was among them.
            driver.drain();
        }
        Some(driver)
    });
    async move {
        if let Some(driver) = handshake.await {
            let shared = Arc::clone(&driver.shared);
            shared.metrics.connections.inc();
            driver.run().await;
            shared.metrics.connections.dec();
        }
    }
}
