//! A device's place on this node: one connection has it, and the next one takes it when that has left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Shared;
use crate::downlink::Delivery;
use crate::registry::{Command, Mailbox};

/// How long an earlier connection of the device may take to end: a client that waits is to be told before it gives up.
const PREVIOUS_MAX: Duration = Duration::from_secs(3);

/// Takes the device's place on this node, when whoever had it has left; whether it has it now. Who was shut out since its login was
/// begun has not.
pub(super) async fn take(
    shared: &Shared,
    key: &str,
    mailbox: &Arc<Mailbox<Delivery>>,
    begun: Instant,
) -> bool {
    let previous = shared.registry.take(key, mailbox);
    // Behind the place, where a notice that comes now finds it.
    let is_shut_out = shared.revocations.since(begun, &mailbox.device);
    let Some(previous) = previous else {
        if is_shut_out {
            shared.registry.leave(key, mailbox);
        }
        return !is_shut_out;
    };
    let has_left = match is_shut_out {
        true => {
            previous.command(Command::Revoked);
            false
        }
        false => {
            previous.command(Command::TakenOver);
            // What it owes takes longer only while JetStream is away.
            timeout(PREVIOUS_MAX, previous.left()).await.is_ok()
        }
    };
    if !has_left {
        shared.registry.leave_to(key, mailbox, Some(previous));
    }
    has_left
}
