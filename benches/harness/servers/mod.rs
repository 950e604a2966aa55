//! The servers under load, each in a folder that goes away with it; they end with this process.

mod brokers;
mod certificate;
mod gateway;
mod nats;
mod process;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Child;

use crate::arguments::{Arguments, Name};
use crate::target::{self, Naming};

/// In front of topics in the subjects of Jetway's open profile.
const OPEN_PREFIX: &str = "mqtt.";

/// What is there now.
pub(crate) struct Started {
    pub(crate) mqtt: Option<SocketAddr>,
    /// The certificate that clients trust.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) nats: Option<String>,
    pub(crate) stream: Option<String>,
    pub(crate) naming: Naming,
    pub(crate) watched: Vec<(String, u32)>,
    pub(crate) running: Running,
}

/// What ends when it is dropped: the processes first.
#[derive(Default)]
pub(crate) struct Running {
    _children: Vec<Child>,
    _state: Option<TempDir>,
}

/// Starts what this target is made of; streams have so many replicas.
pub(crate) async fn start(name: Name, replicas: usize, arguments: &Arguments) -> Result<Started> {
    let state = TempDir::new()?;
    match name {
        Name::Jetway | Name::JetwayStored | Name::JetwayOpen => {
            gateway::start(name, state, replicas, arguments).await
        }
        Name::NatsMqtt => nats::with_mqtt(state, replicas, arguments).await,
        Name::Raw | Name::RawIds | Name::RawBatch => nats::alone(state, replicas).await,
        Name::Mosquitto => brokers::mosquitto(state, arguments).await,
        Name::Rumqttd => brokers::rumqttd(state, arguments).await,
        Name::Running => running(arguments),
    }
}

/// What the operator has started.
fn running(arguments: &Arguments) -> Result<Started> {
    let mqtt = arguments.mqtt;
    let mqtt = mqtt.context("--target running: expected --mqtt")?;
    let naming = match &arguments.devices_file {
        Some(file) => Naming::Device(target::devices(file)?),
        None => Naming::Open {
            prefix: OPEN_PREFIX,
        },
    };
    Ok(Started {
        mqtt: Some(mqtt),
        certificate: arguments.tls.clone().flatten(),
        nats: arguments.nats.clone(),
        stream: arguments.nats.as_ref().map(|_| arguments.stream.clone()),
        naming,
        watched: arguments.watch.clone(),
        running: Running::default(),
    })
}
