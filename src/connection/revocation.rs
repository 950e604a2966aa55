//! FLOW: notice of a change in the catalogue -> what logins remember is forgotten, and who is no longer allowed is disconnected.
//!
//! Every node hears every notice. What was missed while NATS was away is made good by forgetting everything when it is back.
//!
//! Invariant: who logs in while its device is shut out does not stay: a login that was begun before the notice, and takes its
//! device's place behind it, is refused. One whose sub-devices are others meanwhile acts for those that it has now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::catalogue::{Notice, What};
use crate::device::DeviceId;
use crate::jetstream::Link;
use crate::mapping::Mapping;
use crate::registry::{Command, Rebound};

/// Devices that are remembered; with more, every login under way counts as named.
const RECENT_MAX: usize = 10_000;

/// Devices that notices named lately, for as long as a login that began before may take.
pub struct Recent {
    keep: Duration,
    named: Mutex<Named>,
}

#[derive(Default)]
struct Named {
    devices: HashMap<DeviceId, Instant>,
    /// Every device, until then.
    all: Option<Instant>,
}

impl Recent {
    /// `keep`: the longest that a login takes.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self {
            keep,
            named: Mutex::default(),
        }
    }

    fn add(&self, now: Instant, device: Option<&DeviceId>) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.devices.len() >= RECENT_MAX {
            let keep = self.keep;
            named.devices.retain(|_, at| now.duration_since(*at) < keep);
        }
        match device {
            Some(device) if named.devices.len() < RECENT_MAX => {
                named.devices.insert(device.clone(), now);
            }
            Some(_) | None => named.all = Some(now),
        }
    }

    /// Whether a notice named the device since its login was begun.
    pub(super) fn since(&self, begun: Instant, device: &DeviceId) -> bool {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let named = [named.devices.get(device), named.all.as_ref()];
        named.into_iter().flatten().any(|at| *at >= begun)
    }
}

/// Hears notices from now on.
///
/// # Errors
/// The client's.
pub async fn subscribe(link: &Link) -> Result<Subscriber, async_nats::SubscribeError> {
    link.client.subscribe(Notice::SUBJECT).await
}

/// Does what notices say, until `stop`.
pub async fn run(
    shared: Arc<Shared>,
    link: Link,
    mut notices: Subscriber,
    stop: CancellationToken,
) {
    let mut state = link.state.clone();
    let mut epoch = state.borrow_and_update().epoch;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            notice = notices.next() => match notice {
                Some(notice) => shared.handle_notice(&notice.payload),
                None => return,
            },
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = state.borrow_and_update().epoch;
                if now != epoch {
                    epoch = now;
                    shared.authenticator.forget_all();
                    shared.rules.change();
                    for (_, mailbox) in shared.registry.all() {
                        mailbox.rebind(Rebound::Perhaps);
                    }
                }
            }
        }
    }
}

impl Shared {
    fn handle_notice(&self, payload: &[u8]) {
        let (notice, device) = match Notice::read(payload) {
            Ok(read) => read,
            Err(error) => {
                let subject = Notice::SUBJECT;
                tracing::warn!(subject, error, "what came is no notice of a change");
                return;
            }
        };
        if notice.what == What::Rules {
            return self.rules.change();
        }
        let rebound = notice.rebound();
        // First, so that a login that is not found below finds this.
        if notice.what.ends_connections() {
            self.revocations.add(Instant::now(), device.as_ref());
        }
        if let Some(gateway) = &rebound {
            self.rebindings.add(Instant::now(), Some(gateway));
            self.authenticator.forget(gateway);
            if let Some(mailbox) = self.registry.find(&Mapping::device_tokens(gateway)) {
                mailbox.rebind(Rebound::Surely);
            }
        }
        match &device {
            Some(device) => self.authenticator.forget(device),
            None => self.authenticator.forget_product(&notice.product),
        }
        if !notice.what.ends_connections() {
            return;
        }
        let mailboxes = match &device {
            Some(device) => {
                let found = self.registry.find(&Mapping::device_tokens(device));
                found.into_iter().collect()
            }
            None => {
                let mut all: Vec<_> = self.registry.all().into_iter().map(|(_, it)| it).collect();
                all.retain(|mailbox| mailbox.device.product() == notice.product);
                all
            }
        };
        for mailbox in mailboxes {
            tracing::info!(device = %mailbox.device, what = ?notice.what, "connection is revoked");
            mailbox.command(Command::Revoked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_was_begun_before_is_met_and_a_later_one_is_not() {
        let revocations = Recent::new(Duration::from_secs(10));
        let id = |name: &str| DeviceId::new("p", name).unwrap();
        let (before, now) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let after = now + Duration::from_nanos(1);
        revocations.add(now, Some(&id("d")));
        assert!(revocations.since(before, &id("d")));
        assert!(!revocations.since(after, &id("d")));
        assert!(!revocations.since(before, &id("e")));
        revocations.add(now, None);
        assert!(revocations.since(before, &id("e")));
        assert!(!revocations.since(after, &id("e")));
    }

    #[test]
    fn more_than_there_is_room_for_meets_everybody_until_the_old_ones_are_over() {
        let keep = Duration::from_secs(10);
        let revocations = Recent::new(keep);
        let id = |number: usize| DeviceId::new("p", &number.to_string()).unwrap();
        let now = Instant::now();
        for number in 0..RECENT_MAX {
            revocations.add(now, Some(&id(number)));
        }
        assert!(!revocations.since(now, &id(RECENT_MAX)));
        revocations.add(now, Some(&id(RECENT_MAX)));
        assert!(revocations.since(now, &id(RECENT_MAX + 1)));
        let later = now + keep;
        revocations.add(later, Some(&id(0)));
        assert!(revocations.since(later, &id(0)));
        assert!(!revocations.since(later, &id(1)));
    }
}
