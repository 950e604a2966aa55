//! MQTT servers that store nothing: what a message costs where nobody keeps it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use jetway::mqtt::Version;
use tempfile::TempDir;

use super::certificate::{self, Pair};
use super::process::{free_addresses, listening, pid, spawn};
use super::{Running, Started};
use crate::arguments::Arguments;
use crate::target::Naming;

/// Where Debian has it, which is not on everybody's PATH.
const MOSQUITTO: &str = "/usr/sbin/mosquitto";

/// Debian's `mosquitto`, or any on the PATH.
pub(super) async fn mosquitto(state: TempDir, arguments: &Arguments) -> Result<Started> {
    let mqtt = *free_addresses(1)?.first().context("an address")?;
    let pair = pair(&state, arguments)?;
    // Without a user it gives up its rights, and then reads no key.
    let mut text = format!(
        "user root\nlistener {} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\nset_tcp_nodelay true\n",
        mqtt.port()
    );
    if let Some(Pair {
        certificate, key, ..
    }) = &pair
    {
        let (certificate, key) = (certificate.display(), key.display());
        write!(text, "certfile {certificate}\nkeyfile {key}\n")?;
    }
    let program = match Path::new(MOSQUITTO).is_file() {
        true => MOSQUITTO,
        false => "mosquitto",
    };
    start("mosquitto", program, &text, mqtt, (pair, state)).await
}

/// `rumqttd` on the PATH: `cargo install rumqttd`.
pub(super) async fn rumqttd(state: TempDir, arguments: &Arguments) -> Result<Started> {
    let mqtt = *free_addresses(1)?.first().context("an address")?;
    let pair = pair(&state, arguments)?;
    let server = match arguments.mqtt_version {
        Version::V3_1_1 => "v4",
        Version::V5 => "v5",
    };
    let mut text = format!(
        r#"id = 0
[router]
id = 0
max_connections = 20000
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[{server}.1]
name = "{server}"
listen = "{mqtt}"
next_connection_delay_ms = 0
[{server}.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 500
dynamic_filters = true
"#
    );
    if let Some(Pair {
        certificate, key, ..
    }) = &pair
    {
        write!(
            text,
            "[{server}.1.tls]\ncertpath = {certificate:?}\nkeypath = {key:?}\n"
        )?;
    }
    start("rumqttd", "rumqttd", &text, mqtt, (pair, state)).await
}

fn pair(state: &TempDir, arguments: &Arguments) -> Result<Option<Pair>> {
    let made = arguments
        .makes_certificate()
        .then(|| certificate::make(state.path()));
    made.transpose()
}

async fn start(
    name: &str,
    program: &str,
    config: &str,
    mqtt: SocketAddr,
    (pair, state): (Option<Pair>, TempDir),
) -> Result<Started> {
    let file = state.path().join(format!("{name}.toml"));
    std::fs::write(&file, config)?;
    let mut child = spawn(program.as_ref(), &file)?;
    listening(&mut child, &file, mqtt).await?;
    Ok(Started {
        mqtt: Some(mqtt),
        certificate: pair.map(|pair| pair.authority),
        nats: None,
        stream: None,
        naming: Naming::Open { prefix: "" },
        watched: vec![(name.to_owned(), pid(&child)?)],
        running: Running {
            _children: vec![child],
            _state: Some(state),
        },
    })
}
