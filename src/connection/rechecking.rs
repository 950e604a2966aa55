//! FLOW: NATS was away -> the catalogue is asked about every device that is connected -> who is shut out by now is disconnected.
//!
//! Notices of changes are not stored: some may have been missed. That a secret was changed meanwhile counts at the next login. So does
//! that a device was removed, where devices may prove themselves without the catalogue.
//!
//! Invariant: a catalogue that does not answer disconnects nobody, and is asked again until it does.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::catalogue::{Catalogue, Error, FIND_MAX, State};
use crate::jetstream::Link;
use crate::registry::Command;

/// The longest that one answer is waited for.
const FIND_TIME_MAX: Duration = Duration::from_secs(30);
/// How long until a catalogue that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Looks each time that NATS is back, until `stop`.
pub async fn run(shared: Arc<Shared>, catalogue: Catalogue, link: Link, stop: CancellationToken) {
    let look = async {
        let mut state = link.state.clone();
        let mut epoch = state.borrow_and_update().epoch;
        while state.changed().await.is_ok() {
            let now = state.borrow_and_update().epoch;
            if now != epoch {
                epoch = now;
                shared.recheck(&catalogue).await;
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = look => {}
    }
}

impl Shared {
    async fn recheck(&self, catalogue: &Catalogue) {
        let connected: Vec<_> = self.registry.all().into_iter().map(|(_, it)| it).collect();
        for part in connected.chunks(FIND_MAX) {
            let devices: Vec<_> = part.iter().map(|mailbox| &mailbox.device).collect();
            let found = loop {
                let asked = timeout(FIND_TIME_MAX, catalogue.find_all(&devices)).await;
                match asked.unwrap_or(Err(Error::Timeout(FIND_TIME_MAX))) {
                    Ok(found) => break found,
                    Err(error) => {
                        tracing::warn!(%error, "not known yet who was shut out while NATS was away");
                        sleep(RETRY).await;
                    }
                }
            };
            for mailbox in part {
                let may_stay = match found.get(&mailbox.device) {
                    Some(Ok(record)) => record.state == State::Enabled,
                    Some(Err(_)) => true,
                    None => !self.authenticator.lets_in_only_known(),
                };
                if !may_stay {
                    tracing::info!(device = %mailbox.device, "connection is revoked, its device was shut out while NATS was away");
                    mailbox.command(Command::Revoked);
                }
            }
        }
    }
}
