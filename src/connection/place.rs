//! A device's place on this node: one connection has it, and the next one takes it when that has left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Shared;
use super::refused::Refused;
use crate::device::Device;
use crate::downlink::Delivery;
use crate::registry::{Command, Mailbox};

/// How long an earlier connection of the device may take to end: a client that waits is to be told before it gives up.
const PREVIOUS_MAX: Duration = Duration::from_secs(3);

/// A gateway device whose sub-devices have changed since its login was begun acts for those that it has now.
///
/// # Errors
/// They are not known: it is to come again.
pub(super) async fn look_again(
    shared: &Shared,
    device: &mut Device,
    begun: Instant,
) -> Result<(), Refused> {
    let changed = shared.rebindings.since(begun, &device.id);
    let Some(desk) = shared.desk.as_ref().filter(|_| changed) else {
        return Ok(());
    };
    match desk.sub_devices(&device.id).await {
        Ok(sub_devices) => {
            device.sub_devices = sub_devices;
            Ok(())
        }
        Err(error) => {
            tracing::warn!(device = %device.id, %error, "told to come again: its sub-devices are not known");
            Err(Refused::unavailable())
        }
    }
}

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
    let device = &mailbox.device;
    if is_shut_out {
        tracing::info!(%device, "told to log in again: shut out since it began to");
        if let Some(previous) = &previous {
            previous.command(Command::Revoked);
        }
        shared.registry.leave_to(key, mailbox, previous);
        return false;
    }
    let Some(previous) = previous else {
        return true;
    };
    previous.command(Command::TakenOver);
    // What it owes takes longer only while JetStream is away.
    let has_left = timeout(PREVIOUS_MAX, previous.left()).await.is_ok();
    if !has_left {
        tracing::info!(%device, "told to come again: its earlier connection does not end");
        shared.registry.leave_to(key, mailbox, Some(previous));
    }
    has_left
}
