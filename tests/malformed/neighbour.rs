//! A healthy client that is connected while others misbehave, and the service that talks to it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{Backend, Credentials, DemoDevice, Device, Protocol};

/// Far above what a store and a delivery take on a busy machine, far below what a device would call a stall.
const SANE: Duration = Duration::from_secs(2);

/// The client, and what it has done so far.
pub(crate) struct Neighbour {
    device: Device,
    backend: Backend,
    up: String,
    down: String,
    /// Where its messages are stored.
    stream: &'static str,
    /// How many each round leaves there.
    stored_each: u64,
    rounds: u64,
    slowest: Duration,
}

impl Neighbour {
    /// Connects a device, with its subscription.
    pub(crate) async fn connect(gateway: SocketAddr, nats: &str, who: &DemoDevice) -> Self {
        let DemoDevice { product, name, .. } = who;
        let filter = format!("$thing/down/property/{product}/{name}");
        Self {
            device: subscribed(gateway, &who.credentials, &filter).await,
            backend: Backend::connect(nats).await,
            up: format!("$thing/up/property/{product}/{name}"),
            down: format!("device.down.mqtt.thing.{product}.{name}"),
            stream: "DEVICE_UP",
            stored_each: 1,
            rounds: 0,
            slowest: Duration::ZERO,
        }
    }

    /// Connects a client of the open profile, with its subscription.
    pub(crate) async fn connect_open(gateway: SocketAddr, nats: &str) -> Self {
        Self {
            device: subscribed(
                gateway,
                &Credentials::anybody("neighbour"),
                "neighbour/down",
            )
            .await,
            backend: Backend::connect(nats).await,
            up: "neighbour/up".to_owned(),
            down: "mqtt.neighbour.down".to_owned(),
            stream: "MQTT",
            // Both ways are one stream.
            stored_each: 2,
            rounds: 0,
            slowest: Duration::ZERO,
        }
    }

    /// Publishes and receives on the connection it has had all along, which must be as fast as ever.
    pub(crate) async fn check(&mut self, after: &str) {
        let start = Instant::now();
        let acked = self.device.publish_acked(&self.up, "well").await;
        assert_eq!(acked, 0, "PUBACK of the neighbour after {after}");
        self.rounds += 1;
        let mark = format!("{} after {after}", self.rounds);
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
        let stored = self.backend.count(self.stream).await;
        let own = self.rounds * self.stored_each;
        assert_eq!(stored, own + others, "messages stored after {after}");
    }

    /// The service's view.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Leaves, and says what its worst moment was.
    pub(crate) async fn leave(self) {
        println!(
            "neighbour: {} rounds, slowest {:?}",
            self.rounds, self.slowest
        );
        self.device.disconnect().await;
    }
}

async fn subscribed(gateway: SocketAddr, who: &Credentials, filter: &str) -> Device {
    let mut device = Device::connect(Protocol::V5, gateway, who).await;
    assert_eq!(device.subscribe(filter).await, 1);
    device
}
