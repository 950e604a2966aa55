//! `jetway gps`: where a device is, and its reports written again from the stream.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::config::Config;
use crate::device::DeviceId;
use crate::event::iso8601;
use crate::event::moment;
use crate::gateway;
use crate::gps::Replay;
use crate::gps::store::Latest;
use crate::jetstream::Link;
use crate::position::{Flags, System};
use crate::telemetry;

/// Arguments of `jetway gps`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the latest valid position of a device
    Latest(Common),
    /// Write the reports of a device that are missing, with their events, from the stream of uplinks
    Replay {
        #[command(flatten)]
        common: Common,
        /// Received at this time or later: RFC 3339, or an age such as 90s, 10m, 2h, 7d
        #[arg(long)]
        since: String,
        /// Received before this time; without it until now
        #[arg(long)]
        until: Option<String>,
        /// Read a copy of the stream of uplinks that has the same sequences
        #[arg(long)]
        stream: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The device: PRODUCT/NAME
    #[arg(long)]
    device: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Configuration file, for its database and NATS server; without it the environment alone is read
    #[arg(long, env = "JETWAY_CONFIG")]
    config: Option<PathBuf>,
}

impl Common {
    fn device(&self) -> Result<DeviceId> {
        let (product, name) = self
            .device
            .split_once('/')
            .context("--device: expected PRODUCT/NAME")?;
        Ok(DeviceId::new(product, name)?)
    }

    fn config(&self) -> Result<Config> {
        Ok(Config::load(self.config.as_deref(), std::env::vars())?)
    }
}

/// Runs the subcommand; whether there was what was asked for.
pub(super) async fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Latest(common) => latest(&common).await,
        Command::Replay {
            common,
            since,
            until,
            stream,
        } => {
            let now_ms = telemetry::now_unix_ms();
            let time = |name: &str, text: &str| {
                moment(text, now_ms).ok_or_else(|| {
                    anyhow!("--{name}: found {text:?}, expected RFC 3339 or an age such as 90s, 10m, 2h, 7d")
                })
            };
            let since_ms = time("since", &since)?;
            let until_ms = until.map(|until| time("until", &until)).transpose()?;
            replay(&common, since_ms, until_ms.unwrap_or(u64::MAX), stream).await
        }
    }
}

async fn latest(common: &Common) -> Result<bool> {
    let (device, config) = (common.device()?, common.config()?);
    let (tables, _) = gateway::tables(&config).await?;
    let Some(latest) = tables.latest_of(&device).await? else {
        eprintln!("no valid position of {device}");
        return Ok(false);
    };
    let mut out = io::stdout().lock();
    if common.json {
        writeln!(out, "{}", described(&latest))?;
        return Ok(true);
    }
    let Latest {
        latitude,
        longitude,
        ..
    } = latest;
    let (at, system) = (time(latest.at_ms), system(&latest));
    writeln!(out, "{device}\t{at}\t{latitude}\t{longitude}\t{system}")?;
    Ok(true)
}

fn time(ms: i64) -> String {
    iso8601(u64::try_from(ms).unwrap_or(0))
}

fn system(latest: &Latest) -> &'static str {
    System::from_number(latest.coordinate_system).map_or("?", System::name)
}

fn described(latest: &Latest) -> Value {
    let flags = Flags::from_bits(u16::try_from(latest.flags).unwrap_or(0));
    json!({
        "event_id": latest.event_id.to_string(),
        "reported_at": time(latest.at_ms),
        "received_at": time(latest.received_ms),
        "latitude": latest.latitude,
        "longitude": latest.longitude,
        "coordinate_system": system(latest),
        "altitude_m": latest.altitude_m,
        "speed_mps": latest.speed_mps,
        "course_deg": latest.course_deg,
        "satellites": latest.satellites,
        "hdop": latest.hdop,
        "accuracy_m": latest.accuracy_m,
        "flags": flags,
    })
}

async fn replay(
    common: &Common,
    since_ms: u64,
    until_ms: u64,
    stream: Option<String>,
) -> Result<bool> {
    let (device, config) = (common.device()?, common.config()?);
    let mapping = gateway::mapping(&config)?;
    let streams = mapping.uplink_streams();
    let [source] = streams.as_slice() else {
        bail!("expected one stream in all up rules, found {streams:?}");
    };
    let (tables, _) = gateway::tables(&config).await?;
    let replay = Replay {
        link: Link::connect(&config.nats).await?,
        source: Arc::clone(source),
        stream: stream.unwrap_or_else(|| source.to_string()),
        mapping: Arc::new(mapping),
        watched: Arc::new(gateway::watched(&config)?),
        tables,
    };
    let replayed = replay.run(&device, since_ms, until_ms).await?;
    let mut out = io::stdout().lock();
    let (messages, written) = (replayed.messages, replayed.written);
    match common.json {
        true => writeln!(
            out,
            "{}",
            json!({ "messages": messages, "written": written })
        )?,
        false => writeln!(
            out,
            "{messages} messages with a position, {written} reports were missing"
        )?,
    }
    Ok(true)
}
