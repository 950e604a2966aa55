//! nats-server and the `jetway` program beside this one.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use jetway::auth::credentials::{Credentials, Method};
use jetway::catalogue::Catalogue;
use jetway::database;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::certificate::{self, Pair};
use super::{OPEN_PREFIX, Running, Started, nats};
use crate::arguments::{Arguments, Name};
use crate::target::{Naming, Own, PRODUCT};

/// What the gateway prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    mqtt: SocketAddr,
    listeners: Vec<Listener>,
    pid: u32,
}

#[derive(Deserialize)]
struct Listener {
    listen: SocketAddr,
}

pub(super) async fn start(
    name: Name,
    state: TempDir,
    replicas: usize,
    arguments: &Arguments,
) -> Result<Started> {
    let nats::Servers {
        url,
        mut watched,
        mut children,
    } = nats::servers(state.path(), replicas, None).await?;
    let database = format!("sqlite:{}", state.path().join("devices.db").display());
    let (naming, stream) = match name {
        Name::JetwayOpen => (
            Naming::Open {
                prefix: OPEN_PREFIX,
            },
            "MQTT",
        ),
        _ => (
            Naming::Device(add_devices(&database, arguments.devices).await?),
            "DEVICE_UP",
        ),
    };
    let pair = arguments
        .makes_certificate()
        .then(|| certificate::make(state.path()));
    let pair = pair.transpose()?;
    let mut config = configuration(name, &url, &database, pair.as_ref())?;
    if replicas > 1 {
        let rules = state.path().join("rules.toml");
        std::fs::write(
            &rules,
            format!("[[stream]]\nname = {stream:?}\nnum_replicas = {replicas}\n"),
        )?;
        write!(config, "[rules]\nfile = {rules:?}\n")?;
    }
    let file = state.path().join("jetway.toml");
    std::fs::write(&file, config)?;
    let (child, ready) = spawn(&file).await?;
    children.push(child);
    watched.insert(0, ("gateway".to_owned(), ready.pid));
    Ok(Started {
        mqtt: Some(
            ready
                .listeners
                .first()
                .map_or(ready.mqtt, |secure| secure.listen),
        ),
        certificate: pair.map(|pair| pair.authority),
        nats: Some(url),
        stream: Some(stream.to_owned()),
        naming,
        watched,
        running: Running {
            _children: children,
            _state: Some(state),
        },
    })
}

/// Its configuration file; variables of the environment go before it, as always.
fn configuration(name: Name, url: &str, database: &str, pair: Option<&Pair>) -> Result<String> {
    let profile = match name {
        Name::JetwayOpen => "open",
        _ => "device",
    };
    // Events and positions are other roles' work: this is the way into the stream. Storms connect a device more often than an
    // honest one does.
    let mut text = format!(
        "profile = {profile:?}\nroles = [\"gateway\"]\n\
         [nats]\nurl = {url:?}\n[database]\nurl = {database:?}\n\
         [mqtt]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [protection.flapping]\nconnects_max = 0\n[log]\nfilter = \"warn\"\n"
    );
    if name == Name::JetwayStored {
        text.push_str("[mapping]\nlive = []\n");
    }
    if let Some(Pair {
        certificate, key, ..
    }) = pair
    {
        write!(
            text,
            "[[listener]]\nlisten = \"127.0.0.1:0\"\ntransport = \"tls\"\ncertificate = {certificate:?}\nkey = {key:?}\n"
        )?;
    }
    Ok(text)
}

async fn spawn(config: &Path) -> Result<(Child, Ready)> {
    let program = std::env::current_exe()?.with_file_name("jetway");
    ensure!(
        program.is_file(),
        "expected {}: build it first",
        program.display()
    );
    let mut child = Command::new(program)
        .args(["run", "--json", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("the gateway")?;
    let mut line = String::new();
    let stdout = child.stdout.as_mut().context("the gateway's output")?;
    BufReader::new(stdout).read_line(&mut line).await?;
    let ready = serde_json::from_str(&line).context("the gateway did not start")?;
    Ok((child, ready))
}

async fn add_devices(url: &str, count: usize) -> Result<Vec<Own>> {
    let names: Vec<String> = (0..count).map(|number| format!("device{number}")).collect();
    let config = database::Config {
        url: url.to_owned(),
        ..database::Config::default()
    };
    let devices = Catalogue::open(&config).await?;
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
