//! Many look-ups, few statements: logins that wait for the database at the same time are asked for together.
//!
//! A gateway that starts knows nobody, and all its devices come at once: one statement each would be more than a database
//! answers before they give up. No timer: a lone login asks at once, a crowd fills the statement behind the ones under way.
//!
//! Invariant: whoever asks for others may be cancelled; those ask again, with or without it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot};

use crate::catalogue::{Catalogue, Error, FIND_MAX, Record};
use crate::device::DeviceId;

/// Statements under way at once: as many as a pool has connections by default.
const STATEMENTS: usize = 4;

type Waiting = (DeviceId, oneshot::Sender<Result<Option<Record>, Error>>);

/// Looks devices up, together with whoever else does.
pub(super) struct Lookups {
    devices: Catalogue,
    statements: Semaphore,
    waiting: Mutex<Vec<Waiting>>,
}

impl Lookups {
    pub(super) fn new(devices: Catalogue) -> Self {
        Self {
            devices,
            statements: Semaphore::new(STATEMENTS),
            waiting: Mutex::default(),
        }
    }

    /// What the database holds about the device. How long it may take is up to the caller.
    ///
    /// # Errors
    /// As [`Catalogue::find`].
    pub(super) async fn find(&self, device: &DeviceId) -> Result<Option<Record>, Error> {
        loop {
            let (found, mut answer) = oneshot::channel();
            self.lock().push((device.clone(), found));
            tokio::select! {
                biased;
                // Whoever was to answer is gone without an answer for others: then this one asks.
                answered = &mut answer => match answered {
                    Ok(found) => return found,
                    Err(_) => continue,
                },
                _statement = self.statements.acquire() => {
                    self.ask().await?;
                }
            }
            // Mostly with the statement just asked; else in one that another login took it into.
            if let Ok(found) = answer.await {
                return found;
            }
        }
    }

    /// Asks for those that wait longest and tells them; who gave up meanwhile is not asked for.
    async fn ask(&self) -> Result<(), Error> {
        let waiting: Vec<Waiting> = {
            let mut waiting = self.lock();
            waiting.retain(|(_, found)| !found.is_closed());
            let count = waiting.len().min(FIND_MAX);
            waiting.drain(..count).collect()
        };
        if waiting.is_empty() {
            // Others took them into their statements.
            return Ok(());
        }
        let devices: Vec<&DeviceId> = waiting.iter().map(|(device, _)| device).collect();
        let mut records = self.devices.find_all(&devices).await?;
        for (device, found) in waiting {
            // Who gave up meanwhile does not hear it.
            found.send(records.remove(&device).transpose()).ok();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
