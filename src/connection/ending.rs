//! The end of a connection: the last word to the device, the last write of its session, its status, its Will.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::attachment::Attachment;
use super::driver::Driver;
use super::{afterlife, goodbye};
use crate::downlink::Leave;
use crate::mqtt::Publish;
use crate::ownership::{End, Error, Held};
use crate::session::CloseReason;
use crate::telemetry;

/// How long the last write of a session may take; after it, its progress since the write before is repeated.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);
/// How long a device may take to read the last packets.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

impl Driver {
    /// Says goodbye, gives the device up, and publishes the Will if one is due.
    ///
    /// The device is given up before it can see the end and come back, so that the event says why (G28); only while NATS
    /// takes no more does the socket not wait for that.
    pub(super) async fn end(mut self: Box<Self>, reason: CloseReason) {
        let shared = Arc::clone(&self.shared);
        shared.metrics.close(reason);
        tracing::debug!(connection_id = %self.sender.connection_id, device = %self.sender.device.id, reason = reason.as_str(), "connection ended");
        goodbye::say(&mut self.wire, reason, shared.server_reference.as_ref());
        let end = self.part(reason);
        let Self {
            mut wire,
            keeper,
            connection,
            mailbox,
            sender,
            ..
        } = *self;
        let leave = async {
            let held = keeper.finish(LAST_WRITE_MAX).await;
            let slot = shared.status.slot().await;
            let (fenced, will) = last_write(held, end).await;
            if !fenced {
                // Awaited, so that no other node can say sooner that the device is back.
                shared.status.disconnected(slot, &connection, reason).await;
            }
            shared.registry.leave(&sender.tokens, &mailbox);
            if let Some(will) = will {
                afterlife::publish_will(Arc::clone(&shared), connection, will).await;
            }
        };
        let goodbye = timeout(GOODBYE_MAX, wire.finish());
        let ((), _) = tokio::join!(biased; leave, goodbye);
        // Last, so that nobody waits for a peer that does not close.
        wire.linger().await;
    }

    /// Takes the connection out of everything that brings it messages; how its session is left.
    fn part(&mut self, reason: CloseReason) -> End {
        let expiry_s = self.session.session_expiry_s();
        let attachment = Attachment::of(self);
        let leave = match expiry_s {
            0 => Leave::ForGood,
            _ => Leave::Away,
        };
        let position = attachment.leave(self.session.subscriptions(), leave);
        if self.outbound.is_idle() && self.mailbox.is_empty() {
            self.session.skip_to(position);
        }
        if expiry_s == 0 {
            self.lose_unfinished();
        }
        End {
            session: (expiry_s > 0).then(|| self.session.record()),
            expiry_s,
            will: reason.publishes_will(),
        }
    }
}

/// Writes how the session is left: whether another connection holds it, and the Will to be published now.
async fn last_write(held: Option<Held>, end: End) -> (bool, Option<Publish>) {
    let Some(mut held) = held else {
        return (true, None);
    };
    match timeout(LAST_WRITE_MAX, held.end(end)).await {
        Ok(Ok(will)) => (false, will),
        Ok(Err(Error::Fenced)) => (true, None),
        Ok(Err(Error::Unavailable(error))) => {
            tracing::warn!(%error, "session not written at its end");
            (false, held.will_now(telemetry::now_unix_ms()))
        }
        Err(_) => {
            tracing::warn!("session not written at its end in time");
            (false, held.will_now(telemetry::now_unix_ms()))
        }
    }
}
