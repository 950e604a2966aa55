//! A gateway of `jetway dev` with further listeners: one that tests share, or a test's own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;

use crate::support::pki::{Key, Pair, Pki};
use crate::support::{Backend, DemoDevice, DevOptions, Gateway, eventually};

const DEVICES: usize = 200;

/// Which listener of the shared site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    TlsRsa,
    TlsEcdsa,
    TlsExpired,
    /// Wants a client certificate.
    TlsClients,
    Ws,
    Wss,
    Proxy,
    ProxyTls,
    Unix,
    /// Takes two connections.
    Two,
}

/// A gateway and what its clients need.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) pki: Pki,
    /// Issued the servers' certificates.
    pub(crate) ca: Pair,
    /// Issues those of clients.
    pub(crate) client_ca: Pair,
    devices: Vec<DemoDevice>,
    taken: AtomicUsize,
}

impl Site {
    /// The one that tests share.
    pub(crate) async fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        static STARTING: Semaphore = Semaphore::const_new(1);
        let _one_at_a_time = STARTING.acquire().await.unwrap();
        let shared = || SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let running = shared().upgrade();
        if let Some(running) = running {
            return running;
        }
        let started = Arc::new(Self::start_shared().await);
        *shared() = Arc::downgrade(&started);
        started
    }

    async fn start_shared() -> Self {
        let pki = Pki::new();
        let (ca, client_ca) = (pki.authority("ca"), pki.authority("client-ca"));
        let rsa = pki.chained_leaf("rsa", Key::Rsa, &ca).settings();
        let ecdsa = pki.chained_leaf("ecdsa", Key::Ecdsa, &ca).settings();
        let expired = pki.leaf("expired", Key::Ecdsa, &ca, -1).settings();
        let clients = format!("{ecdsa}, client_ca = {:?}", client_ca.certificate);
        let address = "listen = '127.0.0.1:0'";
        // In the order of `At`.
        let listeners = [
            format!("{address}, transport = 'tls', {rsa}"),
            format!("{address}, transport = 'tls', {ecdsa}"),
            format!("{address}, transport = 'tls', {expired}"),
            format!("{address}, transport = 'tls', {clients}"),
            format!("{address}, transport = 'ws'"),
            format!("{address}, transport = 'wss', {ecdsa}"),
            format!("{address}, proxy_protocol = true"),
            format!("{address}, proxy_protocol = true, transport = 'tls', {ecdsa}"),
            format!("unix = {:?}", pki.path("mqtt.sock")),
            format!("{address}, connections_max = 2"),
        ];
        Self::start(pki, ca, client_ca, &listeners, &[]).await
    }

    /// One of the test's own.
    pub(crate) async fn start(
        pki: Pki,
        ca: Pair,
        client_ca: Pair,
        listeners: &[String],
        settings: &[(&str, &str)],
    ) -> Self {
        let tables = listeners.iter().map(|table| format!("{{ {table} }}"));
        let listeners = format!("[{}]", tables.collect::<Vec<_>>().join(", "));
        let settings = [("JETWAY_LISTENER", listeners.as_str())]
            .into_iter()
            .chain(settings.iter().copied());
        let environment = settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let gateway = Gateway::dev(DevOptions {
            environment,
            ..DevOptions::default()
        })
        .await;
        let devices = gateway.add_devices("t", DEVICES);
        Self {
            gateway,
            pki,
            ca,
            client_ca,
            devices,
            taken: AtomicUsize::new(0),
        }
    }

    /// The address of a listener of the shared site.
    pub(crate) fn at(&self, listener: At) -> SocketAddr {
        self.address(listener as usize)
    }

    /// The address of a listener by its place in the configuration.
    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.gateway.ready.listeners[number].listen.unwrap()
    }

    /// The path of the shared site's Unix socket.
    pub(crate) fn unix(&self) -> PathBuf {
        self.gateway.ready.listeners[At::Unix as usize]
            .unix
            .clone()
            .unwrap()
    }

    /// A device that nobody else uses.
    pub(crate) fn device(&self) -> &DemoDevice {
        &self.devices[self.taken.fetch_add(1, Ordering::Relaxed)]
    }

    /// A backend service at its nats-server.
    pub(crate) async fn backend(&self) -> Backend {
        Backend::connect(&self.gateway.ready.nats).await
    }

    /// How many sockets were rejected for this reason.
    pub(crate) async fn rejected(&self, reason: &str) -> f64 {
        let name = format!("jetway_connects_rejected_total{{reason=\"{reason}\"}}");
        self.gateway.metric(&name).await
    }

    /// Waits until `count` more sockets than `before` were rejected for this reason.
    pub(crate) async fn rejects(&self, reason: &str, before: f64, count: usize) {
        eventually(
            &format!("{count} more rejected: {reason}"),
            async || match self.rejected(reason).await - before {
                more if more >= count as f64 => Ok(()),
                more => Err(format!("{more}")),
            },
        )
        .await;
    }
}

/// The topic of a device's property reports, or of what is sent to it.
pub(crate) fn topic(direction: &str, device: &DemoDevice) -> String {
    format!(
        "$thing/{direction}/property/{}/{}",
        device.product, device.name
    )
}

/// The subject under which a device's reports are stored.
pub(crate) fn stored(device: &DemoDevice) -> String {
    format!("device.up.mqtt.thing.{}.{}", device.product, device.name)
}

/// The subject of downlinks to a device.
pub(crate) fn downlink(device: &DemoDevice) -> String {
    format!("device.down.mqtt.thing.{}.{}", device.product, device.name)
}

/// Where the first status event of a device says that it is from.
pub(crate) async fn peer_address(site: &Site, device: &DemoDevice) -> String {
    let subject = format!(
        "application.device.{}.{}.status.*",
        device.product, device.name
    );
    let events = site
        .backend()
        .await
        .wait_for("APPLICATION", &subject, 1)
        .await;
    let event: serde_json::Value = serde_json::from_slice(&events[0].payload).unwrap();
    let address = event["data"]["peer_address"].as_str();
    address.unwrap_or_else(|| panic!("{event}")).to_owned()
}
