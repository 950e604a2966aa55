//! What a peer that is not let in is told, and how that is counted.
//!
//! "Server unavailable" means "come again": whoever answers it says why in the log.

use std::time::Duration;

use tokio::time::timeout;

use super::Shared;
use super::metrics::Rejected;
use super::wire::Wire;
use crate::mqtt::{Packet, ReasonCode};
use crate::session::connect::refusal;

/// What a refused peer is told, and how that is counted.
pub(super) struct Refused {
    pub(super) answer: Option<ReasonCode>,
    pub(super) rejected: Rejected,
}

impl Refused {
    pub(super) fn silently(rejected: Rejected) -> Self {
        Self {
            answer: None,
            rejected,
        }
    }

    pub(super) fn with(answer: ReasonCode, rejected: Rejected) -> Self {
        Self {
            answer: Some(answer),
            rejected,
        }
    }

    pub(super) fn unavailable() -> Self {
        Self::with(ReasonCode::ServerUnavailable, Rejected::Unavailable)
    }

    /// A peer that sent its CONNECT waits for us and is told so (G24); one that did not is just closed.
    pub(super) fn late(wire: &Wire) -> Self {
        match wire.codec.version() {
            Some(_) => {
                tracing::info!("told to come again: its login took too long");
                Self::unavailable()
            }
            None => Self::silently(Rejected::Timeout),
        }
    }

    pub(super) async fn tell(&self, shared: &Shared, mut wire: Wire, limit: Duration) {
        shared.metrics.reject(self.rejected);
        if let Some(reason) = self.answer {
            // The answer comes before the close, but nobody is waited for longer than for a handshake (G21).
            if wire.send(&Packet::Connack(refusal(reason))).is_ok() {
                drop(timeout(limit, wire.finish()).await);
                wire.linger().await;
            }
        }
    }
}
