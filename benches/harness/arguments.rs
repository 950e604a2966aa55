//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use jetway::mqtt::{QoS, Version};

use crate::model;

/// Load on an MQTT server and the NATS behind it.
#[derive(Debug, Clone, Parser)]
#[command(name = "jetway-bench", version)]
pub(crate) enum Command {
    /// All publish
    FanIn(Box<Arguments>),
    /// A service sends to all of them
    Downlink(Box<Arguments>),
    /// A service asks all of them, and they answer
    Rpc(Box<Arguments>),
    /// All connect at once, again and again
    Storm(Box<Arguments>),
    /// All are connected and do nothing
    Idle(Box<Arguments>),
    /// A fleet of vehicles: reports, positions, events, some reconnecting
    Fleet(Box<Arguments>),
    /// Fan-in of Jetway, its peers and JetStream itself in turn, and what Jetway is held to
    Held(Box<Arguments>),
    /// What a fleet needs, by what messages and connections cost
    Model(model::Costs),
}

/// What is measured, with which load.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// Servers to start and measure; several are measured in turn
    #[arg(long = "target", value_enum)]
    pub(crate) targets: Vec<Name>,
    /// How often each target is measured; `held` does it three times
    #[arg(long)]
    pub(crate) rounds: Option<u32>,
    /// Replicas of streams; more than one with a cluster of three nats-servers; several numbers are measured in turn
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub(crate) replicas: Vec<usize>,
    /// An MQTT server that runs already, instead of a target
    #[arg(long)]
    pub(crate) mqtt: Option<SocketAddr>,
    /// The NATS server behind it: messages are looked for there, and downlinks sent
    #[arg(long)]
    pub(crate) nats: Option<String>,
    /// The stream that has the uplinks
    #[arg(long, default_value = "DEVICE_UP")]
    pub(crate) stream: String,
    /// Devices of the gateway that runs: lines `product,device,secret`; without it they have the topics of the open profile
    #[arg(long)]
    pub(crate) devices_file: Option<PathBuf>,
    /// A process whose CPU time and memory are watched: name=pid
    #[arg(long, value_parser = watched)]
    pub(crate) watch: Vec<(String, u32)>,
    /// Devices
    #[arg(long, default_value_t = 1_000)]
    pub(crate) devices: usize,
    /// Closed loop: messages of each device that wait for their answer
    #[arg(long, default_value_t = 16)]
    pub(crate) window: u16,
    /// Open loop instead: messages a second of all devices together
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// After each closed loop an open one at such a part of what it reached
    #[arg(long, conflicts_with = "rate")]
    pub(crate) at_fraction: Option<f64>,
    /// Bytes of each payload
    #[arg(long, default_value_t = 256)]
    pub(crate) payload: usize,
    /// QoS of uplinks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) qos: u8,
    /// MQTT version: 3.1.1 or 5
    #[arg(long, default_value = "3.1.1", value_parser = version)]
    pub(crate) mqtt_version: Version,
    /// TLS, with a certificate made for the run; for a server that runs already, the file with its CA certificate
    #[arg(long)]
    #[expect(
        clippy::option_option,
        reason = "clap: absent, without a value, with one"
    )]
    pub(crate) tls: Option<Option<PathBuf>>,
    /// The name in the server's certificate
    #[arg(long, default_value = "localhost")]
    pub(crate) tls_name: String,
    /// For how long, after --warm-up
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Not measured, before it
    #[arg(long, default_value_t = 1)]
    pub(crate) warm_up: u64,
    /// CONNECTs under way at once
    #[arg(long, default_value_t = 100)]
    pub(crate) connects: usize,
    /// A recorded track for the fleet: lines time,latitude,longitude,altitude
    #[arg(long)]
    pub(crate) track: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long)]
    pub(crate) html: Option<PathBuf>,
}

/// What the devices do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    FanIn,
    Downlink,
    Rpc,
    Storm,
    Idle,
    Fleet,
}

/// Servers that are started here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Jetway with the device profile, and its nats-server
    Jetway,
    /// The same without live copies: messages are stored, and nothing else
    JetwayStored,
    /// Jetway with the open profile
    JetwayOpen,
    /// nats-server's own MQTT, with a stream on the topics
    NatsMqtt,
    /// mosquitto, which stores nothing
    Mosquitto,
    /// rumqttd, which stores nothing
    Rumqttd,
    /// No MQTT: a pipelined JetStream publisher
    Raw,
    /// The same with a message id each, as who sends again after a failure needs it
    RawIds,
    /// No MQTT: a publisher of fast batches
    RawBatch,
    /// What runs at --mqtt
    Running,
}

impl Scenario {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FanIn => "fan-in",
            Self::Downlink => "downlink",
            Self::Rpc => "rpc",
            Self::Storm => "storm",
            Self::Idle => "idle",
            Self::Fleet => "fleet",
        }
    }
}

impl Name {
    /// As it is written on the command line.
    pub(crate) fn text(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Arguments {
    /// Whether a certificate has to be made: a server that runs already has its own.
    pub(crate) fn makes_certificate(&self) -> bool {
        self.tls == Some(None)
    }

    /// What is measured: at least one.
    pub(crate) fn targets(&self) -> Vec<Name> {
        match (self.targets.as_slice(), self.mqtt) {
            ([], Some(_)) => vec![Name::Running],
            ([], None) => vec![Name::Jetway],
            (targets, _) => targets.to_vec(),
        }
    }

    pub(crate) fn qos(&self) -> QoS {
        match self.qos {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        }
    }
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "3.1.1" => Ok(Version::V3_1_1),
        "5" | "5.0" => Ok(Version::V5),
        _ => Err("expected 3.1.1 or 5".to_owned()),
    }
}

fn watched(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("expected name=pid")?;
    let pid = pid.parse().map_err(|_error| "expected name=pid")?;
    Ok((name.to_owned(), pid))
}
