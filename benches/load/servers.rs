//! The servers under load: a nats-server and the gateway binary, with devices in its database.
//!
//! Both run in a folder that goes away with them and end with this process.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use jetway::auth::Devices;
use jetway::auth::credentials::{Credentials, Method};
use jetway::cli::dev::nats_server::{NatsServer, Options, default_cache_dir, locate};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The product of all devices.
pub(crate) const PRODUCT: &str = "load";

/// Running servers.
pub(crate) struct Servers {
    pub(crate) nats: NatsServer,
    pub(crate) gateway: Ready,
    /// One for each device; device N is `device<N>`.
    pub(crate) credentials: Vec<Credentials>,
    _child: Child,
    _state: TempDir,
}

/// What the gateway prints when it is ready.
#[derive(Deserialize)]
pub(crate) struct Ready {
    pub(crate) mqtt: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) pid: u32,
}

impl Servers {
    /// Starts both on free ports and adds the devices.
    pub(crate) async fn start(devices: usize) -> Result<Self> {
        let state = TempDir::new()?;
        let nats = NatsServer::start(Options {
            binary: locate(&default_cache_dir()).await?,
            state_dir: state.path().to_owned(),
            port: 0,
        })
        .await?;
        let database = format!("sqlite:{}", state.path().join("devices.db").display());
        let credentials = add_devices(&database, devices).await?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_jetway"))
            .args(["run", "--json"])
            .env("JETWAY_NATS_URL", nats.url())
            // Events are made by whoever has that role: this is the way into the stream.
            .env("JETWAY_ROLES", r#"["gateway"]"#)
            .env("JETWAY_DATABASE_URL", database)
            .env("JETWAY_MQTT_LISTEN", "127.0.0.1:0")
            .env("JETWAY_HTTP_LISTEN", "127.0.0.1:0")
            .env("JETWAY_LOG_FILTER", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the gateway")?;
        let mut line = String::new();
        let stdout = child.stdout.as_mut().context("the gateway's output")?;
        BufReader::new(stdout).read_line(&mut line).await?;
        Ok(Self {
            nats,
            gateway: serde_json::from_str(&line).context("the gateway did not start")?,
            credentials,
            _child: child,
            _state: state,
        })
    }

    /// Every figure of the gateway's `/metrics` as it is now.
    pub(crate) async fn metrics(&self) -> Result<Metrics> {
        let mut socket = TcpStream::connect(self.gateway.http).await?;
        socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        if !answer.starts_with("HTTP/1.0 200") {
            bail!("expected /metrics, found {answer}");
        }
        Ok(Metrics(answer))
    }

    /// Messages in the stream of uplinks.
    pub(crate) async fn stored_uplinks(&self) -> Result<u64> {
        let client = async_nats::connect(self.nats.url()).await?;
        let stream = async_nats::jetstream::new(client)
            .get_stream("DEVICE_UP")
            .await?;
        Ok(stream.cached_info().state.messages)
    }
}

/// A page of `/metrics`.
pub(crate) struct Metrics(String);

impl Metrics {
    /// A figure without labels.
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        let found = self.0.lines().find_map(value);
        found.with_context(|| format!("expected the metric {name} on the gateway's page"))
    }
}

async fn add_devices(database: &str, count: usize) -> Result<Vec<Credentials>> {
    let names: Vec<String> = (0..count).map(|number| format!("device{number}")).collect();
    let devices = Devices::open(&jetway::database::Config {
        url: database.to_owned(),
        ..jetway::database::Config::default()
    })
    .await?;
    let records = devices.add(PRODUCT, &names, None).await?;
    let credentials = records.iter().map(|record| {
        Credentials::generate(&record.device, &record.secret, Method::HmacSha256)
            .context("credentials")
    });
    credentials.collect()
}
