//! The servers under load, each in a folder that goes away with it; they end with this process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_nats::jetstream::{self, stream};
use jetway::auth::Devices;
use jetway::auth::credentials::{Credentials, Method};
use jetway::cli::dev::nats_server::{NatsServer, Options, default_cache_dir, locate};
use jetway::database;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::arguments::{Arguments, Name};
use crate::target::{self, Naming, Own, PRODUCT};

/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// In front of topics in the subjects of Jetway's open profile.
const OPEN_PREFIX: &str = "mqtt.";

/// What is there now.
pub(crate) struct Started {
    pub(crate) mqtt: Option<SocketAddr>,
    pub(crate) nats: Option<String>,
    pub(crate) stream: Option<String>,
    pub(crate) naming: Naming,
    pub(crate) watched: Vec<(String, u32)>,
    pub(crate) running: Running,
}

/// What ends when it is dropped.
#[derive(Default)]
pub(crate) struct Running {
    _children: Vec<Child>,
    _nats: Option<NatsServer>,
    _state: Option<TempDir>,
}

/// What the gateway prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    mqtt: SocketAddr,
    pid: u32,
}

pub(crate) async fn start(name: Name, arguments: &Arguments) -> Result<Started> {
    match name {
        Name::Jetway => jetway(arguments, "device").await,
        Name::JetwayOpen => jetway(arguments, "open").await,
        Name::NatsMqtt => nats_mqtt().await,
        Name::Mosquitto => mosquitto().await,
        Name::Rumqttd => rumqttd().await,
        Name::Raw => raw().await,
        Name::Running => running(arguments),
    }
}

/// A nats-server and the `jetway` program beside this one.
async fn jetway(arguments: &Arguments, profile: &str) -> Result<Started> {
    let state = TempDir::new()?;
    let nats = nats_server(state.path()).await?;
    let database = format!("sqlite:{}", state.path().join("devices.db").display());
    let is_open = profile == "open";
    let naming = match is_open {
        true => Naming::Open {
            prefix: OPEN_PREFIX,
        },
        false => Naming::Device(add_devices(&database, arguments.devices).await?),
    };
    let program = std::env::current_exe()?.with_file_name("jetway");
    ensure!(
        program.is_file(),
        "expected {}: build it first",
        program.display()
    );
    let mut child = Command::new(program)
        .args(["run", "--json"])
        .env("JETWAY_PROFILE", profile)
        .env("JETWAY_NATS_URL", nats.url())
        // Events and positions are other roles' work: this is the way into the stream.
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
    let ready: Ready = serde_json::from_str(&line).context("the gateway did not start")?;
    Ok(Started {
        mqtt: Some(ready.mqtt),
        nats: Some(nats.url()),
        stream: Some(if is_open { "MQTT" } else { "DEVICE_UP" }.to_owned()),
        naming,
        watched: vec![
            ("gateway".to_owned(), ready.pid),
            ("nats-server".to_owned(), nats.pid()),
        ],
        running: Running {
            _children: vec![child],
            _nats: Some(nats),
            _state: Some(state),
        },
    })
}

async fn nats_server(folder: &Path) -> Result<NatsServer> {
    let options = Options {
        binary: locate(&default_cache_dir()).await?,
        state_dir: folder.to_owned(),
        port: 0,
    };
    Ok(NatsServer::start(options).await?)
}

async fn add_devices(url: &str, count: usize) -> Result<Vec<Own>> {
    let names: Vec<String> = (0..count).map(|number| format!("device{number}")).collect();
    let config = database::Config {
        url: url.to_owned(),
        ..database::Config::default()
    };
    let devices = Devices::open(&config).await?;
    let records = devices.add(PRODUCT, &names, None).await?;
    let own = records.iter().zip(names).map(|(record, name)| {
        let made = Credentials::generate(&record.device, &record.secret, Method::HmacSha256);
        Ok(Own {
            product: PRODUCT.to_owned(),
            name,
            credentials: made.context("credentials")?,
        })
    });
    own.collect()
}

/// nats-server with its own MQTT, and a stream that is bound to the topics.
async fn nats_mqtt() -> Result<Started> {
    let state = TempDir::new()?;
    let (client, mqtt) = (free_port()?, free_port()?);
    let store = state.path().join("store");
    let text = format!(
        "server_name: bench\nhost: 127.0.0.1\nport: {}\njetstream {{ store_dir: {store:?} }}\nmqtt {{ host: 127.0.0.1, port: {} }}\n",
        client.port(),
        mqtt.port(),
    );
    let file = state.path().join("nats.conf");
    std::fs::write(&file, text)?;
    let binary = locate(&default_cache_dir()).await?;
    let child = spawn(
        binary.as_os_str(),
        &["-c", &file.display().to_string()],
        state.path(),
    )?;
    listening(client).await?;
    listening(mqtt).await?;
    let url = format!("nats://{client}");
    create_stream(&url, &["bench.>"]).await?;
    let watched = vec![("nats-server".to_owned(), pid(&child)?)];
    Ok(Started {
        mqtt: Some(mqtt),
        nats: Some(url),
        stream: Some(STREAM.to_owned()),
        naming: Naming::Open { prefix: "" },
        watched,
        running: Running {
            _children: vec![child],
            _nats: None,
            _state: Some(state),
        },
    })
}

const STREAM: &str = "BENCH";

async fn create_stream(url: &str, subjects: &[&str]) -> Result<()> {
    let context = jetstream::new(async_nats::connect(url).await?);
    let config = stream::Config {
        name: STREAM.to_owned(),
        subjects: subjects
            .iter()
            .map(|subject| (*subject).to_owned())
            .collect(),
        ..stream::Config::default()
    };
    context.create_stream(config).await?;
    Ok(())
}

/// Debian's `mosquitto`, or any on the PATH.
async fn mosquitto() -> Result<Started> {
    let state = TempDir::new()?;
    let mqtt = free_port()?;
    let text = format!(
        "listener {} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\nset_tcp_nodelay true\n",
        mqtt.port()
    );
    let file = state.path().join("mosquitto.conf");
    std::fs::write(&file, text)?;
    let child = spawn(
        "mosquitto".as_ref(),
        &["-c", &file.display().to_string()],
        state.path(),
    )?;
    plain("mosquitto", mqtt, child, state).await
}

/// `rumqttd` on the PATH: `cargo install rumqttd`.
async fn rumqttd() -> Result<Started> {
    let state = TempDir::new()?;
    let mqtt = free_port()?;
    let text = format!(
        r#"id = 0
[router]
id = 0
max_connections = 20000
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v4.1]
name = "v4"
listen = "{mqtt}"
next_connection_delay_ms = 0
[v4.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 500
dynamic_filters = true
"#
    );
    let file = state.path().join("rumqttd.toml");
    std::fs::write(&file, text)?;
    let child = spawn(
        "rumqttd".as_ref(),
        &["-c", &file.display().to_string()],
        state.path(),
    )?;
    plain("rumqttd", mqtt, child, state).await
}

/// A server with MQTT alone.
async fn plain(name: &str, mqtt: SocketAddr, child: Child, state: TempDir) -> Result<Started> {
    listening(mqtt).await?;
    Ok(Started {
        mqtt: Some(mqtt),
        nats: None,
        stream: None,
        naming: Naming::Open { prefix: "" },
        watched: vec![(name.to_owned(), pid(&child)?)],
        running: Running {
            _children: vec![child],
            _nats: None,
            _state: Some(state),
        },
    })
}

/// A nats-server with a stream like that of uplinks, for the publisher without MQTT.
async fn raw() -> Result<Started> {
    let state = TempDir::new()?;
    let nats = nats_server(state.path()).await?;
    create_stream(&nats.url(), &["bench.>"]).await?;
    Ok(Started {
        mqtt: None,
        nats: Some(nats.url()),
        stream: Some(STREAM.to_owned()),
        naming: Naming::Open { prefix: "" },
        watched: vec![("nats-server".to_owned(), nats.pid())],
        running: Running {
            _children: Vec::new(),
            _nats: Some(nats),
            _state: Some(state),
        },
    })
}

/// What the operator has started.
fn running(arguments: &Arguments) -> Result<Started> {
    let Some(mqtt) = arguments.mqtt else {
        bail!("--target running: expected --mqtt");
    };
    let naming = match &arguments.devices_file {
        Some(file) => Naming::Device(target::devices(file)?),
        None => Naming::Open {
            prefix: OPEN_PREFIX,
        },
    };
    Ok(Started {
        mqtt: Some(mqtt),
        nats: arguments.nats.clone(),
        stream: arguments.nats.as_ref().map(|_| arguments.stream.clone()),
        naming,
        watched: arguments.watch.clone(),
        running: Running::default(),
    })
}

fn spawn(program: &std::ffi::OsStr, arguments: &[&str], folder: &Path) -> Result<Child> {
    let log = std::fs::File::create(folder.join("log"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}; is it installed?", program.display()))
}

fn pid(child: &Child) -> Result<u32> {
    child.id().context("it has ended")
}

fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

async fn listening(address: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + START_MAX;
    while TcpStream::connect(address).await.is_err() {
        ensure!(Instant::now() < deadline, "nobody listens on {address}");
        sleep(LOOK).await;
    }
    Ok(())
}
