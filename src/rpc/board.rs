//! Where requests wait until the device's connection takes them, which is at once: its mailbox only says that there are some.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Ask, Refusal};

/// Requests by device (`P.D`); cheap to clone.
#[derive(Clone)]
pub struct Board {
    device_max: usize,
    asks: Arc<Mutex<HashMap<Box<str>, Vec<Ask>>>>,
}

impl Board {
    /// At most so many for one device.
    #[must_use]
    pub fn new(device_max: usize) -> Self {
        Self {
            device_max,
            asks: Arc::default(),
        }
    }

    /// Leaves one for the connection of a device.
    pub(super) fn post(&self, device: &str, ask: Ask) {
        let mut asks = self.lock();
        let waiting = asks.entry(device.into()).or_default();
        waiting.retain(|ask| !ask.is_over());
        if waiting.len() >= self.device_max {
            return ask.refuse(Refusal::Busy);
        }
        waiting.push(ask);
    }

    /// Takes all that wait for a device.
    #[must_use]
    pub fn take(&self, device: &str) -> Vec<Ask> {
        self.lock().remove(device).unwrap_or_default()
    }

    /// Forgets those that nobody took and nobody waits for.
    pub(super) fn tidy(&self, device: &str) {
        let mut asks = self.lock();
        if let Some(waiting) = asks.get_mut(device) {
            waiting.retain(|ask| !ask.is_over());
            if waiting.is_empty() {
                asks.remove(device);
            }
        }
    }

    /// How many a device's connection may have under way.
    #[must_use]
    pub fn device_max(&self) -> usize {
        self.device_max
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<Ask>>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
