//! The command: what is asked for, where it is looked for, in which order.

use std::collections::HashSet;
use std::io::Write as _;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_nats::jetstream::Context;
use prost::Message as _;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::search::{self, Found, Look, Start};
use super::story::{Step, Story, What, dead_of, rfc3339};
use crate::device::DeviceId;
use crate::mapping::{CONTENT_TYPE, DeviceFilters, DeviceMessage, EVENT_CURSORS};
use crate::telemetry;

/// Arguments of `jetway trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device: product id and device name, PRODUCT/DEVICE
    device: Device,
    /// The payload's msgToken, the message's Jw-Id, or when it was sent (RFC 3339)
    message: String,
    /// How long ago it was sent at most, in hours
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// How far from the given time it may be, in seconds
    #[arg(long, default_value_t = 5)]
    around: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// NATS server
    #[arg(long, env = "JETWAY_NATS_URL", default_value = "nats://127.0.0.1:4222")]
    nats: String,
}

#[derive(Debug, Clone)]
struct Device(DeviceId);

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (product, name) = text.split_once('/').ok_or("expected PRODUCT/DEVICE")?;
        let device = DeviceId::new(product, name).map_err(|error| error.to_string())?;
        Ok(Self(device))
    }
}

/// What is looked for.
#[derive(Debug, Clone)]
enum Asked {
    /// Whatever was stored in this time.
    Between(OffsetDateTime, OffsetDateTime),
    /// A msgToken or an id, stored since then.
    Named(String, OffsetDateTime),
}

/// Looks, and prints what it found; whether it found anything.
pub(crate) async fn run(args: Args) -> Result<bool> {
    let asked = Asked::new(&args)?;
    let client = async_nats::connect(&args.nats)
        .await
        .with_context(|| format!("no NATS server at {}", args.nats))?;
    let search = Search {
        jetstream: async_nats::jetstream::new(client),
        filters: DeviceFilters::new(&args.device.0),
        asked,
        unknown: Vec::new(),
    };
    let story = search.story(&args).await?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&story)?)?,
        false => write!(out, "{story}")?,
    }
    Ok(!story.steps.is_empty())
}

impl Asked {
    fn new(args: &Args) -> Result<Self> {
        if args.message.is_empty() {
            bail!("expected a msgToken, a Jw-Id or an RFC 3339 time");
        }
        let now = OffsetDateTime::UNIX_EPOCH + telemetry::now();
        Ok(match OffsetDateTime::parse(&args.message, &Rfc3339) {
            Ok(time) => {
                let around = Duration::from_secs(args.around.into());
                Self::Between(time - around, time + around)
            }
            Err(_is_a_name) => {
                let ago = Duration::from_secs(3_600 * u64::from(args.hours));
                Self::Named(args.message.clone(), now - ago)
            }
        })
    }

    fn from(&self) -> OffsetDateTime {
        match self {
            Self::Between(from, _) | Self::Named(_, from) => *from,
        }
    }

    /// Whether the device's own message is meant; `until` has been looked at already.
    fn is(&self, found: &Found) -> bool {
        match self {
            Self::Between(..) => true,
            Self::Named(name, _) => {
                found.header("Jw-Id") == name
                    || found.header("Nats-Msg-Id") == name
                    || token(found).is_some_and(|token| token == *name)
            }
        }
    }

    fn until(&self) -> OffsetDateTime {
        match self {
            Self::Between(_, until) => *until,
            Self::Named(..) => far(),
        }
    }
}

/// Later than anything.
fn far() -> OffsetDateTime {
    time::PrimitiveDateTime::MAX.assume_utc()
}

/// The msgToken of a payload, in either form of a message; none if it has none that is a text.
fn token(found: &Found) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        msg_token: Option<String>,
    }
    let message = &found.message;
    let payload = match found.header("Content-Type") {
        CONTENT_TYPE => DeviceMessage::decode(message.payload.clone()).ok()?.payload,
        _ => message.payload.clone(),
    };
    let payload: Payload = serde_json::from_slice(&payload).ok()?;
    payload.msg_token
}

struct Search {
    jetstream: Context,
    filters: DeviceFilters,
    asked: Asked,
    unknown: Vec<String>,
}

impl Search {
    async fn story(mut self, args: &Args) -> Result<Story> {
        let from = self.asked.from();
        let range = (Start::Time(from), self.asked.until());
        let later = (Start::Time(from), far());
        let asked = self.asked.clone();
        let filters = self.filters.clone();
        let uplinks = self
            .look("DEVICE_UP", &filters.uplinks, range, |found| {
                asked.is(found)
            })
            .await?;
        let sources: HashSet<String> = uplinks.iter().map(Found::place).collect();
        let events = self
            .look("APPLICATION", &filters.events, later, |found| {
                sources.contains(found.header("Jw-Source"))
            })
            .await?;
        let replays = self.replays(&uplinks, &sources).await?;
        let tokens: HashSet<String> = uplinks.iter().filter_map(token).collect();
        let is_reply = |found: &Found| {
            let of_source = sources.iter().any(|source| {
                let id = format!("reply.{}", source.replace(':', "."));
                let rest = found.header("Nats-Msg-Id").strip_prefix(&*id);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            of_source || token(found).is_some_and(|token| tokens.contains(&token))
        };
        let is_asked = |found: &Found| matches!(asked, Asked::Named(..)) && asked.is(found);
        let downlinks = self
            .look("DEVICE_DOWN", &filters.downlinks, later, |found| {
                is_reply(found) || is_asked(found)
            })
            .await?;
        let stored = uplinks.iter().chain(&events).chain(&replays);
        let stored = stored.chain(&downlinks);
        let places: HashSet<String> = stored.map(Found::place).collect();
        let dead = self
            .look("DLQ", &filters.dead_letters, later, |found| {
                let is_own = found.message.subject.starts_with("dlq.downlink.");
                places.contains(&dead_of(found)) || is_own && (is_reply(found) || is_asked(found))
            })
            .await?;
        self.tell_unknown(&uplinks, &events, &downlinks, &dead)
            .await?;
        let parts = [
            (What::Uplink, uplinks),
            (What::Event, events),
            (What::Replay, replays),
            (What::DeadLetter, dead),
            (What::Downlink, downlinks),
        ];
        Ok(Story {
            device: args.device.0.to_string(),
            asked: args.message.clone(),
            steps: self.steps(&parts).await?,
            unknown: self.unknown,
        })
    }

    /// What was found, in the order in which it was stored.
    async fn steps(&self, parts: &[(What, Vec<Found>)]) -> Result<Vec<Step>> {
        let mut durables = search::durables(&self.jetstream, "DEVICE_UP").await?;
        durables.extend(search::durables(&self.jetstream, "APPLICATION").await?);
        let mut steps = Vec::new();
        for (what, found) in parts {
            steps.extend(found.iter().map(|found| {
                let mut step = Step::new(*what, found);
                if matches!(what, What::Uplink | What::Event | What::Replay) {
                    step.durables = search::handlings(&durables, found);
                }
                (found.stored, step)
            }));
        }
        steps.sort_by_key(|(stored, _)| *stored);
        Ok(steps.into_iter().map(|(_, step)| step).collect())
    }

    /// What of the uplinks, and of the events that were made of them, was replayed.
    async fn replays(
        &mut self,
        uplinks: &[Found],
        sources: &HashSet<String>,
    ) -> Result<Vec<Found>> {
        let later = (Start::Time(self.asked.from()), far());
        let filters = self.filters.clone();
        let ids: HashSet<&str> = uplinks.iter().map(|found| found.header("Jw-Id")).collect();
        let mut replays = self
            .look("DEVICE_UP", &filters.uplink_replays, later, |found| {
                ids.contains(found.header("Jw-Id"))
            })
            .await?;
        let events = self
            .look("APPLICATION", &filters.event_replays, later, |found| {
                sources.contains(found.header("Jw-Source"))
            })
            .await?;
        replays.extend(events);
        Ok(replays)
    }

    async fn look(
        &mut self,
        stream: &str,
        filters: &[String],
        range: (Start, OffsetDateTime),
        keep: impl Fn(&Found) -> bool,
    ) -> Result<Vec<Found>> {
        let Look { found, incomplete } =
            search::look(&self.jetstream, stream, filters, range, keep).await?;
        self.unknown.extend(incomplete);
        Ok(found)
    }

    /// Says what was looked for in vain.
    async fn tell_unknown(
        &mut self,
        uplinks: &[Found],
        events: &[Found],
        downlinks: &[Found],
        dead: &[Found],
    ) -> Result<()> {
        let since = rfc3339(self.asked.from());
        if uplinks.is_empty() {
            let words = match self.asked {
                Asked::Between(_, until) => {
                    format!(
                        "DEVICE_UP has nothing of the device from {since} to {}",
                        rfc3339(until)
                    )
                }
                Asked::Named(..) => format!(
                    "DEVICE_UP has no message of the device with this msgToken or Jw-Id since {since}: it was not \
                     accepted (no PUBACK), is older, or was for the device"
                ),
            };
            self.unknown.push(words);
        }
        for uplink in uplinks {
            let place = uplink.place();
            let has_event = events
                .iter()
                .any(|event| event.header("Jw-Source") == place);
            if !has_event && !dead.iter().any(|dead| dead_of(dead) == place) {
                let words = self.why_no_event(uplink).await?;
                self.unknown.push(format!("{place}: {words}"));
            }
        }
        if downlinks.is_empty() && (!uplinks.is_empty() || matches!(self.asked, Asked::Named(..))) {
            self.unknown.push(
                "DEVICE_DOWN has no answer to the device: there was none, or it was delivered, which removes it".to_owned(),
            );
        }
        Ok(())
    }

    /// How far the event workers are, against a message that has no event.
    async fn why_no_event(&mut self, uplink: &Found) -> Result<&'static str> {
        #[derive(Deserialize)]
        struct Cursor {
            source: String,
            sequence: u64,
        }
        let cursors = [EVENT_CURSORS.to_owned()];
        let all = (Start::LastOfEachSubject, far());
        let cursors = self.look("APPLICATION", &cursors, all, |_| true).await?;
        let cursors = cursors
            .iter()
            .filter_map(|found| serde_json::from_slice(&found.message.payload).ok())
            .filter(|cursor: &Cursor| cursor.source == uplink.stream);
        let passed: Vec<bool> = cursors
            .map(|cursor| cursor.sequence >= uplink.sequence)
            .collect();
        Ok(match (passed.contains(&true), passed.contains(&false)) {
            (false, false) => "no event, and no event worker has begun",
            (true, false) => {
                "no event: the event workers are past it, so it is none of the thing model's, or its events have expired"
            }
            (false, true) => "no event yet: it waits for the event workers, which are behind it",
            (true, true) => "no event; some event workers are past it, others are behind it",
        })
    }
}
