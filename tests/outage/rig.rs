//! One nats-server, one gateway against it, and devices that may log in: everything that a test here kills.

use std::collections::HashMap;
use std::net::SocketAddr;

use tempfile::TempDir;

use super::fleet::{Fleet, Journal};
use super::support::{
    Backend, Connect, DemoDevice, Device, FaultProxy, Gateway, NatsServer, Protocol, RunOptions,
    eventually, jetway,
};
use super::verdict::Verdict;

/// Devices of a fleet, unless a test is about their number.
pub(crate) const DEVICES: usize = 20;
/// Payload of a fleet's messages.
pub(crate) const PAYLOAD_BYTES: usize = 100;

/// How the gateway brings uplinks into their stream, by the operator's own declaration of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// As declared without a word of the operator: fast batches.
    Fast,
    /// Atomic batches.
    Atomic,
    /// Messages one by one.
    Single,
}

impl Publishing {
    /// What an operator writes for it into a file of rules.
    pub(crate) fn rules(self) -> &'static str {
        match self {
            Self::Fast => "",
            Self::Atomic => {
                "[[stream]]\nname = \"DEVICE_UP\"\nallow_batched = false\nallow_atomic = true\n"
            }
            Self::Single => "[[stream]]\nname = \"DEVICE_UP\"\nallow_batched = false\n",
        }
    }
}

/// The servers of one test.
pub(crate) struct Rig {
    pub(crate) nats: NatsServer,
    pub(crate) gateway: Gateway,
    /// Between the two, where a test asked for it.
    pub(crate) proxy: Option<FaultProxy>,
    pub(crate) devices: Vec<DemoDevice>,
    environment: Vec<(String, String)>,
    state: TempDir,
}

impl Rig {
    /// Starts both; `environment` configures the gateway.
    pub(crate) async fn start(environment: &[(&str, &str)]) -> Self {
        Self::of(DEVICES, environment).await
    }

    /// The same with so many devices.
    pub(crate) async fn of(devices: usize, environment: &[(&str, &str)]) -> Self {
        let nats = NatsServer::start().await;
        Self::with(nats, None, devices, Publishing::Fast, environment).await
    }

    /// Starts both; uplinks go in this way.
    pub(crate) async fn publishing(publishing: Publishing) -> Self {
        let nats = NatsServer::start().await;
        Self::with(nats, None, DEVICES, publishing, &[]).await
    }

    /// The same with a proxy between them.
    pub(crate) async fn behind_proxy(publishing: Publishing) -> Self {
        let nats = NatsServer::start().await;
        let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], nats.port()))).await;
        Self::with(nats, Some(proxy), DEVICES, publishing, &[]).await
    }

    async fn with(
        nats: NatsServer,
        proxy: Option<FaultProxy>,
        devices: usize,
        publishing: Publishing,
        environment: &[(&str, &str)],
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let database_url = database_url(&state);
        let devices = add_devices(&database_url, devices);
        let rules = state.path().join("rules.toml");
        std::fs::write(&rules, publishing.rules()).unwrap();
        let rules = rules.display().to_string();
        let rules = ("JETWAY_RULES_FILE", &*rules);
        let environment: Vec<(String, String)> = std::iter::once(&rules)
            .chain(environment)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let options = options(&nats, proxy.as_ref(), &state, &environment);
        let gateway = Gateway::run(options).await;
        Self {
            nats,
            gateway,
            proxy,
            devices,
            environment,
            state,
        }
    }

    /// Connected to the nats-server itself, beside any proxy.
    pub(crate) async fn backend(&self) -> Backend {
        Backend::connect(&self.nats.url()).await
    }

    /// All devices, publishing small messages.
    pub(crate) async fn fleet(&self) -> Fleet {
        Fleet::start(self.gateway.mqtt(), &self.devices, PAYLOAD_BYTES).await
    }

    /// To start the gateway again where devices look for it.
    pub(crate) fn gateway_options(&self) -> RunOptions {
        RunOptions {
            mqtt_listen: Some(self.gateway.mqtt()),
            ..options(
                &self.nats,
                self.proxy.as_ref(),
                &self.state,
                &self.environment,
            )
        }
    }

    /// Lets the fleet end and judges what is stored.
    pub(crate) async fn judge(&self, fleet: Fleet) -> (Verdict, Vec<Journal>) {
        let journals = fleet.finish().await;
        let mut why = HashMap::<String, usize>::new();
        for lost in journals.iter().flat_map(|journal| &journal.lost) {
            *why.entry(format!("{lost:?}")).or_default() += 1;
        }
        if !why.is_empty() {
            println!("connections lost: {why:?}");
        }
        let metric = async |name: &str| {
            let name = format!("jetway_uplink_stream_{name}_total");
            self.gateway.metric(&name).await
        };
        let (batches, guarded) = (metric("batches").await, metric("guarded").await);
        println!("{batches} batches, {guarded} of them without message ids");
        let verdict = Verdict::of(&self.backend().await, &journals).await;
        (verdict, journals)
    }

    /// Memory of the gateway's process in MiB: now, and at its highest.
    pub(crate) fn gateway_mib(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.gateway.pid());
        let status = std::fs::read_to_string(path).unwrap();
        let values: HashMap<&str, &str> = status
            .lines()
            .filter_map(|line| line.split_once(':'))
            .collect();
        let mib = |key: &str| {
            let kib = values[key].trim().trim_end_matches(" kB");
            kib.parse::<u64>().unwrap() / 1024
        };
        (mib("VmRSS"), mib("VmHWM"))
    }
}

/// Where a device reports its properties.
pub(crate) fn topic(device: &DemoDevice) -> String {
    format!("$thing/up/property/{}/{}", device.product, device.name)
}

/// The device, once it is let in again.
pub(crate) async fn returned(protocol: Protocol, address: SocketAddr, who: &DemoDevice) -> Device {
    Box::pin(eventually("the device is let in again", async || {
        let connect = Connect::new(protocol, address, &who.credentials);
        let connected = Device::connect_with(connect).await;
        connected.map_err(|refused| format!("{refused:?}"))
    }))
    .await
}

/// The devices of a fleet, added to the database.
pub(crate) fn add_devices(database_url: &str, count: usize) -> Vec<DemoDevice> {
    let count = count.to_string();
    let added = jetway(
        &["device", "add", "outage", "d", "--count", &count, "--json"],
        &[("JETWAY_DATABASE_URL", database_url)],
    );
    let devices = added.lines().map(serde_json::from_str);
    devices.collect::<Result<_, _>>().unwrap()
}

pub(crate) fn database_url(state: &TempDir) -> String {
    format!("sqlite:{}", state.path().join("devices.db").display())
}

fn options(
    nats: &NatsServer,
    proxy: Option<&FaultProxy>,
    state: &TempDir,
    environment: &[(String, String)],
) -> RunOptions {
    RunOptions {
        nats_url: proxy.map_or_else(|| nats.url(), FaultProxy::url),
        database_url: database_url(state),
        environment: environment.to_vec(),
        ..RunOptions::default()
    }
}
