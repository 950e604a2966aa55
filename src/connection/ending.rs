//! The end of a connection: the last word to the device, the last write of its session, its status, its Will.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::attachment::Attachment;
use super::behind::Online;
use super::driver::Driver;
use super::keeping::Keeper;
use super::releasing::Released;
use super::wire::Wire;
use super::{Shared, afterlife, goodbye, releasing};
use crate::device::Connection;
use crate::downlink::{Delivery, Leave};
use crate::ownership::{End, Turn};
use crate::registry::Mailbox;
use crate::session::CloseReason;
use crate::tasks::OnExit;
use crate::uplink::Sender;

/// How long the socket stays open because the connection is not over in NATS.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
/// How long a device may take to read the last packets.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// The device's place on this node; given up when dropped, whatever became of the task that has it.
struct Place {
    shared: Arc<Shared>,
    tokens: Arc<str>,
    mailbox: Arc<Mailbox<Delivery>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.registry.leave(&self.tokens, &self.mailbox);
    }
}

impl Driver {
    /// Says goodbye, gives the device up, and publishes the Will if one is due.
    ///
    /// The device is given up before it can see the end and come back, so that the event says why (G28); only while NATS
    /// takes no more does the socket not wait for that, and the device is not let in until it is (G01).
    pub(super) async fn end(mut self: Box<Self>, reason: CloseReason) {
        let shared = Arc::clone(&self.shared);
        shared.metrics.close(reason);
        self.note_end(reason);
        tracing::debug!(connection_id = %self.sender.connection_id, device = %self.sender.device.id, reason = reason.as_str(), "connection ended");
        if reason == CloseReason::SocketClosed {
            // Nobody is there to be told, and the descriptor is for whoever comes next, perhaps this very device. Thousands may be
            // cut off at once: the rest waits for its turn, so that connected devices wait behind a few ends.
            self.wire.close().await;
            shared.tasks.spawn("farewell", OnExit::Log, async move {
                let turn = turn_to_leave(&self.shared, &self.mailbox).await;
                let (farewell, _) = self.leave(reason);
                Box::pin(farewell.say(turn)).await;
            });
            return;
        }
        goodbye::say(&mut self.wire, reason, shared.server_reference.as_ref());
        let (farewell, mut wire) = self.leave(reason);
        let (done, is_over) = oneshot::channel::<()>();
        shared.tasks.spawn("farewell", OnExit::Log, async move {
            farewell.say(None).await;
            drop(done);
        });
        let left = timeout(FAREWELL_MAX, is_over);
        let goodbye = timeout(GOODBYE_MAX, wire.finish());
        drop(tokio::join!(biased; left, goodbye));
        // Last, so that nobody waits for a peer that does not close.
        wire.linger().await;
    }

    /// Takes the connection apart: what it owes, and its socket.
    fn leave(mut self: Box<Self>, reason: CloseReason) -> (Farewell, Wire) {
        let end = self.part(reason);
        let Self {
            shared,
            wire,
            keeper,
            connection,
            mailbox,
            session,
            sender,
            inbound,
            behind,
            ..
        } = *self;
        let farewell = Farewell {
            place: Place {
                shared,
                tokens: Arc::clone(&sender.tokens),
                mailbox,
            },
            keeper,
            connection,
            forgets_held: end.expiry_s == 0 && session.may_hold(),
            sender,
            released: inbound.released,
            online: behind.into_online(),
            end,
            reason,
        };
        (farewell, wire)
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

/// Returns when it is a connection's turn to leave, or another one waits for that: what is waited for goes first.
async fn turn_to_leave(shared: &Shared, mailbox: &Mailbox<Delivery>) -> Option<Turn> {
    tokio::select! {
        biased;
        () = mailbox.commanded() => None,
        turn = shared.ownership.turn_to_leave() => Some(turn),
    }
}

/// What a connection that is over owes.
struct Farewell {
    place: Place,
    keeper: Keeper,
    connection: Arc<Connection>,
    sender: Sender,
    released: Released,
    /// Its sub-devices that are online.
    online: Online,
    /// Whether what its session holds is over too.
    forgets_held: bool,
    end: End,
    reason: CloseReason,
}

impl Farewell {
    /// The last word about a connection: its status, its Will and its session, in this order: should the node die in between,
    /// whoever finds the session says it all once more, under the same ids. A connection that was cut off says nothing.
    async fn say(self, turn: Option<Turn>) {
        let shared = &*self.place.shared;
        // What it sent stands before its end, and before all that the device sends over its next connection.
        self.sender.receipts.finished(self.sender.accepted).await;
        releasing::leave(
            &self.place.shared,
            self.released,
            &self.sender,
            self.forgets_held,
        );
        let Some(mut held) = self.keeper.finish().await else {
            return;
        };
        let will = held.leave(self.end);
        if !held.is_held().await {
            return;
        }
        let [slot] = shared.status.slots().await;
        // Awaited, so that no other node can say sooner that the device is back.
        shared
            .status
            .disconnected(slot, &self.connection, self.reason)
            .await;
        let lost = shared
            .status
            .all_disconnected(self.online.values(), CloseReason::GatewayLost);
        lost.await;
        if let Some(will) = will {
            afterlife::publish_will(shared, &self.connection, &will).await;
        }
        let _turn = match self.reason {
            CloseReason::SocketClosed | CloseReason::TakenOver => turn,
            _ => turn_to_leave(shared, &self.place.mailbox).await,
        };
        held.settle().await;
    }
}
