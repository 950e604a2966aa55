//! The first login of a device is written down: from then on it does not register any more.
//!
//! Many at once are written in one statement, in a task beside the logins, which do not wait for it. What could not be written is
//! noted again at the device's next login.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::catalogue::{Catalogue, FIND_MAX};
use crate::device::DeviceId;

/// First logins that may wait.
const WAITING_MAX: usize = 16_384;

/// Where first logins are noted. Cheap to clone.
#[derive(Clone)]
pub(super) struct Activations(mpsc::Sender<DeviceId>);

/// The task that writes them.
pub struct Activation {
    catalogue: Catalogue,
    noted: mpsc::Receiver<DeviceId>,
}

impl Activations {
    pub(super) fn new(catalogue: Catalogue) -> (Self, Activation) {
        let (sender, noted) = mpsc::channel(WAITING_MAX);
        (Self(sender), Activation { catalogue, noted })
    }

    pub(super) fn note(&self, device: &DeviceId) {
        // With no room, its next login notes it.
        self.0.try_send(device.clone()).ok();
    }
}

impl Activation {
    /// Runs until `shutdown`, and writes what was noted by then.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut devices = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => self.noted.close(),
                _count = self.noted.recv_many(&mut devices, FIND_MAX) => {}
            }
            while let Ok(device) = self.noted.try_recv() {
                devices.push(device);
                if devices.len() >= FIND_MAX {
                    self.write(&mut devices).await;
                }
            }
            self.write(&mut devices).await;
            if shutdown.is_cancelled() || self.noted.is_closed() {
                return;
            }
        }
    }

    async fn write(&self, devices: &mut Vec<DeviceId>) {
        if let Err(error) = self.catalogue.activate(devices).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, count = devices.len(), "first logins are not written");
        }
        devices.clear();
    }
}
