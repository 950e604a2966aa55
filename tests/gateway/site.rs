//! A gateway with its nats-server and registered devices: one that tests share, or a test's own.
//!
//! The shared one is started by the first test that needs it and gone with the last one that holds it. Tests that use it
//! take a device of their own each, and read of streams and metrics only what is about that device or can only rise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::support::{
    Backend, Credentials, Device, Gateway, NatsServer, Protocol, RunOptions, Stored, eventually,
    jetway,
};

/// Both versions that devices speak: every flow is tested with each.
pub(crate) const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

const PRODUCT: &str = "flows";
/// Of all devices here.
pub(crate) const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
const DEVICES: usize = 400;

/// A gateway and what it needs.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) nats: NatsServer,
    state: TempDir,
    environment: Vec<(String, String)>,
    taken: AtomicUsize,
}

impl Site {
    /// The one that tests share.
    pub(crate) async fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        static STARTING: Semaphore = Semaphore::const_new(1);
        let _one_at_a_time = STARTING.acquire().await.unwrap();
        let running = SHARED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .upgrade();
        if let Some(running) = running {
            return running;
        }
        let started = Arc::new(Self::start(&[]).await);
        *SHARED.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&started);
        started
    }

    /// One of the test's own, the gateway with these environment variables.
    pub(crate) async fn start(environment: &[(&str, &str)]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let count = DEVICES.to_string();
        add_device(
            &state,
            &[PRODUCT, "d", "--secret", SECRET, "--count", &count],
        );
        let nats = NatsServer::start().await;
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment: Vec<_> = environment.collect();
        Self {
            gateway: run(nats.url(), &state, &environment).await,
            nats,
            state,
            environment,
            taken: AtomicUsize::new(0),
        }
    }

    /// Starts a gateway in the place of one that ended; it listens elsewhere.
    pub(crate) async fn restart_gateway(&mut self) {
        self.gateway = self.further_gateway().await;
    }

    /// One more gateway with the same servers.
    pub(crate) async fn further_gateway(&self) -> Gateway {
        self.gateway_at(self.nats.url()).await
    }

    /// The same, which has another way to NATS.
    pub(crate) async fn gateway_at(&self, nats_url: String) -> Gateway {
        run(nats_url, &self.state, &self.environment).await
    }

    /// A backend service at its nats-server.
    pub(crate) async fn backend(&self) -> Backend {
        Backend::connect(&self.nats.url()).await
    }

    /// A device that nobody else uses.
    pub(crate) fn device(&self) -> Registered {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(number < DEVICES, "more than {DEVICES} devices are needed");
        Registered::new(PRODUCT, &format!("d{number}"))
    }

    /// Adds a further device: product, name and options of `jetway device add`.
    pub(crate) fn add_device(&self, arguments: &[&str]) {
        add_device(&self.state, arguments);
    }

    /// Where its products and devices are.
    pub(crate) fn database_url(&self) -> String {
        database_url(&self.state)
    }

    /// Connects a device.
    pub(crate) async fn connect(&self, protocol: Protocol, device: &Registered) -> Device {
        Device::connect(protocol, self.gateway.mqtt(), &device.credentials).await
    }

    /// Waits until a metric has grown by one since it was `before`.
    pub(crate) async fn counted(&self, metric: &str, before: f64) {
        eventually(
            &format!("{metric} rises above {before}"),
            async || match self.gateway.metric(metric).await {
                now if now > before => Ok(()),
                now => Err(format!("{now}")),
            },
        )
        .await;
    }
}

async fn run(nats_url: String, state: &TempDir, environment: &[(String, String)]) -> Gateway {
    Gateway::run(RunOptions {
        nats_url,
        database_url: database_url(state),
        environment: environment.to_vec(),
        ..RunOptions::default()
    })
    .await
}

fn database_url(state: &TempDir) -> String {
    format!("sqlite:{}", state.path().join("devices.db").display())
}

fn add_device(state: &TempDir, arguments: &[&str]) {
    let url = database_url(state);
    let command = [&["device", "add"], arguments, &["--database", &url]].concat();
    jetway(&command, &[]);
}

/// A device in the database, and everything that is called after it.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) product: String,
    pub(crate) name: String,
    pub(crate) credentials: Credentials,
}

impl Registered {
    pub(crate) fn new(product: &str, name: &str) -> Self {
        Self {
            product: product.to_owned(),
            name: name.to_owned(),
            credentials: Credentials::new(product, name, SECRET),
        }
    }

    /// `<head>/<product>/<name>`, such as `$thing/up/property/P/D`.
    pub(crate) fn topic(&self, head: &str) -> String {
        format!("{head}/{}/{}", self.product, self.name)
    }

    /// The topic of its property reports.
    pub(crate) fn reports(&self) -> String {
        self.topic("$thing/up/property")
    }

    /// `<head>.<product>.<name>`, such as `device.down.thing.P.D`.
    pub(crate) fn subject(&self, head: &str) -> String {
        format!("{head}.{}.{}", self.product, self.name)
    }

    /// What is stored of it, in order.
    pub(crate) async fn stored(&self, backend: &Backend) -> Vec<Stored> {
        let filter = self.subject("device.up.mqtt.*");
        backend.messages("DEVICE_UP", &filter).await
    }

    /// Waits until so many messages of it are stored, and returns all.
    pub(crate) async fn stored_count(&self, backend: &Backend, count: usize) -> Vec<Stored> {
        let filter = self.subject("device.up.mqtt.*");
        backend.wait_for("DEVICE_UP", &filter, count).await
    }
}
