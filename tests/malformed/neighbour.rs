//! A healthy device that is connected while others misbehave, and the service that talks to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{Backend, DemoDevice, Device, Protocol};

/// Far above what a store and a delivery take on a busy machine, far below what a device would call a stall.
const SANE: Duration = Duration::from_secs(2);

/// The device, and what it has done so far.
pub(crate) struct Neighbour {
    device: Device,
    backend: Backend,
    up: String,
    down: String,
    /// Its messages in the stream.
    pub(crate) published: u64,
    slowest: Duration,
}

impl Neighbour {
    /// Connects it, with its subscription.
    pub(crate) async fn connect(gateway: SocketAddr, nats: &str, who: &DemoDevice) -> Self {
        let mut device = Device::connect(Protocol::V5, gateway, &who.credentials).await;
        let DemoDevice { product, name, .. } = who;
        let filter = format!("$thing/down/property/{product}/{name}");
        assert_eq!(device.subscribe(&filter).await, 1);
        Self {
            device,
            backend: Backend::connect(nats).await,
            up: format!("$thing/up/property/{product}/{name}"),
            down: format!("device.down.mqtt.thing.{product}.{name}"),
            published: 0,
            slowest: Duration::ZERO,
        }
    }

    /// Publishes and receives on the connection it has had all along, which must be as fast as ever.
    pub(crate) async fn check(&mut self, after: &str) {
        let start = Instant::now();
        let acked = self.device.publish_acked(&self.up, "well").await;
        assert_eq!(acked, 0, "PUBACK of the neighbour after {after}");
        self.published += 1;
        let mark = format!("{} after {after}", self.published);
        self.backend.publish(&self.down, &[], mark.clone()).await;
        assert_eq!(self.device.next().await.text(), mark);
        let took = start.elapsed();
        assert!(
            took < SANE,
            "the neighbour was held up for {took:?} after {after}"
        );
        self.slowest = self.slowest.max(took);
    }

    /// Asserts that the stream holds the neighbour's messages and `others` besides.
    pub(crate) async fn check_stored(&self, others: u64, after: &str) {
        let stored = self.backend.count("DEVICE_UP").await;
        assert_eq!(
            stored,
            self.published + others,
            "messages stored after {after}"
        );
    }

    /// The service's view.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Leaves, and says what its worst moment was.
    pub(crate) async fn leave(self) {
        println!(
            "neighbour: {} rounds, slowest {:?}",
            self.published, self.slowest
        );
        self.device.disconnect().await;
    }
}
