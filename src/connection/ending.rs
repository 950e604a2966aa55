//! The end of a connection: the last word to the device, the last write of its session, its status, its Will.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::attachment::Attachment;
use super::driver::Driver;
use super::keeping::Keeper;
use super::{Shared, afterlife, goodbye, releasing};
use crate::device::Connection;
use crate::downlink::{Delivery, Leave};
use crate::ownership::{End, Turn};
use crate::registry::Mailbox;
use crate::session::CloseReason;
use crate::tasks::OnExit;

/// How long the socket stays open because the connection is not over in NATS.
const FAREWELL_MAX: Duration = Duration::from_secs(5);
/// How long a device may take to read the last packets.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// The device's place on this node; given up when dropped, whatever became of the task that has it.
struct Place {
    shared: Arc<Shared>,
    tokens: Arc<str>,
    mailbox: Arc<Mailbox<Delivery>>,
    _done: oneshot::Sender<()>,
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
        // Thousands may be cut off at once. Nobody is there to be told, so that all of the end waits for its turn, and connected
        // devices wait behind a few ends.
        let turn = match reason {
            CloseReason::SocketClosed => turn_to_leave(&shared, &self.mailbox).await,
            _ => None,
        };
        shared.metrics.close(reason);
        tracing::debug!(connection_id = %self.sender.connection_id, device = %self.sender.device.id, reason = reason.as_str(), "connection ended");
        goodbye::say(&mut self.wire, reason, shared.server_reference.as_ref());
        let end = self.part(reason);
        let (done, is_over) = oneshot::channel::<()>();
        let Self {
            mut wire,
            keeper,
            connection,
            mailbox,
            session,
            sender,
            inbound,
            ..
        } = *self;
        let place = Place {
            shared: Arc::clone(&shared),
            tokens: Arc::clone(&sender.tokens),
            mailbox,
            _done: done,
        };
        let forgets_held = end.expiry_s == 0 && session.may_hold();
        shared.tasks.spawn("farewell", OnExit::Log, async move {
            // What it sent stands before its end, and before all that the device sends over its next connection.
            sender.receipts.finished(sender.accepted).await;
            releasing::leave(&place.shared, inbound.released, &sender, forgets_held);
            say_over(&place, keeper, connection, end, reason, turn).await;
            drop(place);
        });
        let left = async {
            // Nobody is there who could see the end too early; the descriptor is for whoever comes next, perhaps this very device.
            if reason != CloseReason::SocketClosed {
                drop(timeout(FAREWELL_MAX, is_over).await);
            }
        };
        let goodbye = timeout(GOODBYE_MAX, wire.finish());
        drop(tokio::join!(biased; left, goodbye));
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

/// Returns when it is a connection's turn to leave, or another one waits for that: what is waited for goes first.
async fn turn_to_leave(shared: &Shared, mailbox: &Mailbox<Delivery>) -> Option<Turn> {
    tokio::select! {
        biased;
        () = mailbox.commanded() => None,
        turn = shared.ownership.turn_to_leave() => Some(turn),
    }
}

/// The last word about a connection: its status, its Will and its session, in this order: should the node die in between,
/// whoever finds the session says it all once more, under the same ids. A connection that was cut off says nothing.
async fn say_over(
    place: &Place,
    keeper: Keeper,
    connection: Arc<Connection>,
    end: End,
    reason: CloseReason,
    turn: Option<Turn>,
) {
    let shared = &*place.shared;
    let Some(mut held) = keeper.finish().await else {
        return;
    };
    let will = held.leave(end);
    if !held.is_held().await {
        return;
    }
    let [slot] = shared.status.slots().await;
    // Awaited, so that no other node can say sooner that the device is back.
    shared.status.disconnected(slot, &connection, reason).await;
    if let Some(will) = will {
        afterlife::publish_will(shared, &connection, &will).await;
    }
    let _turn = match reason {
        CloseReason::SocketClosed | CloseReason::TakenOver => turn,
        _ => turn_to_leave(shared, &place.mailbox).await,
    };
    held.settle().await;
}
