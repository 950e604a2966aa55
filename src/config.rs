//! The whole configuration: every module's own, from a TOML file and the environment.
//!
//! `JETWAY_<SECTION>_<KEY>` overrides `<key>` of `[<section>]`; `JETWAY_PROFILE` the profile. All faults are reported at once,
//! each with its place and what was expected, and nothing starts with one.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use crate::auth;
use crate::catalogue;
use crate::connection;
use crate::database;
use crate::downlink;
use crate::events;
use crate::gps;
use crate::health;
use crate::jetstream;
use crate::jobs;
use crate::mapping;
use crate::net;
use crate::outbox;
use crate::ownership;
use crate::protection;
use crate::rpc;
use crate::session;
use crate::telemetry;

/// Environment variables of other parts of the program, which are not configuration keys.
const NOT_CONFIGURATION: [&str; 2] = ["JETWAY_NATS_SERVER", "JETWAY_CONFIG"];

/// The longest reference to another server, which devices keep in small buffers.
const SERVER_REFERENCE_BYTES_MAX: usize = 1_000;

/// Everything a gateway needs to know; each section belongs to the module that reads it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which topic rules and login apply.
    pub profile: mapping::Profile,
    /// What this process does.
    pub roles: Vec<Role>,
    /// The plain MQTT listener, and the limits of all listeners.
    pub mqtt: net::Config,
    /// Further listeners: TLS, WebSocket, PROXY protocol, Unix sockets.
    pub listener: Vec<net::ListenerConfig>,
    /// Sockets of devices.
    pub connection: connection::Config,
    /// Sessions of devices.
    pub session: session::Config,
    /// How nodes own sessions.
    pub ownership: ownership::Config,
    /// What waits for devices.
    pub downlink: downlink::Config,
    /// Application events.
    pub events: events::Config,
    /// GPS reports.
    pub gps: gps::Config,
    /// What is committed in the database and published afterwards.
    pub outbox: outbox::Config,
    /// Jobs about GPS reports, and XXL-JOB.
    pub jobs: jobs::Config,
    /// Requests to devices.
    pub rpc: rpc::Config,
    /// Logins.
    pub auth: auth::Config,
    /// Keys of the secrets in the database.
    pub catalogue: catalogue::Config,
    /// Limits against those who take too much.
    pub protection: protection::Config,
    /// Database of products and devices.
    pub database: database::Config,
    /// NATS.
    pub nats: jetstream::client::Config,
    /// Looking after streams and durables.
    pub streams: jetstream::provision::Config,
    /// Publishing into the uplink stream.
    pub publisher: jetstream::publisher::Config,
    /// Topics and subjects.
    pub mapping: mapping::Settings,
    /// An operator's own mapping rules, beside the built-in ones.
    pub rules: Rules,
    /// The operator's HTTP port.
    pub http: Http,
    /// What is an alarm, and who is told.
    pub alarm: health::Config,
    /// Stopping.
    pub drain: Drain,
    /// Logs.
    pub log: telemetry::Config,
    /// Traces.
    pub telemetry: telemetry::otlp::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profile: mapping::Profile::default(),
            roles: vec![
                Role::Gateway,
                Role::Events,
                Role::Gps,
                Role::Outbox,
                Role::Jobs,
            ],
            mqtt: net::Config::default(),
            listener: Vec::new(),
            connection: connection::Config::default(),
            session: session::Config::default(),
            ownership: ownership::Config::default(),
            downlink: downlink::Config::default(),
            events: events::Config::default(),
            gps: gps::Config::default(),
            outbox: outbox::Config::default(),
            jobs: jobs::Config::default(),
            rpc: rpc::Config::default(),
            auth: auth::Config::default(),
            catalogue: catalogue::Config::default(),
            protection: protection::Config::default(),
            database: database::Config::default(),
            nats: jetstream::client::Config::default(),
            streams: jetstream::provision::Config::default(),
            publisher: jetstream::publisher::Config::default(),
            mapping: mapping::Settings::default(),
            rules: Rules::default(),
            alarm: health::Config::default(),
            http: Http::default(),
            drain: Drain::default(),
            log: telemetry::Config::default(),
            telemetry: telemetry::otlp::Config::default(),
        }
    }
}

/// What a process does; any number may do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Devices connect to it.
    Gateway,
    /// It makes application events of what devices report; not with the open profile.
    Events,
    /// It writes GPS reports into the database; not with the open profile.
    Gps,
    /// It publishes what is committed in the database; not with the open profile.
    Outbox,
    /// It runs jobs when they are due, and when XXL-JOB wants them; not with the open profile.
    Jobs,
}

/// An operator's own mapping rules.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// A file in the form of `subjects/rules.toml`.
    pub file: Option<std::path::PathBuf>,
}

/// The operator's HTTP port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address and port; port 0 takes any free one.
    #[serde(deserialize_with = "net::address")]
    pub listen: SocketAddr,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
        }
    }
}

/// Stopping.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// How long a stop may take before it is forced, in milliseconds.
    pub deadline_ms: u64,
    /// The server that MQTT 5 devices are told to use instead, such as `mqtt2.example.com:1883`; without one they are told that this
    /// one stops.
    pub server_reference: Option<String>,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            deadline_ms: 20_000,
            server_reference: None,
        }
    }
}

impl Drain {
    fn validate(&self) -> Vec<String> {
        let is_reference = |text: &str| {
            (1..=SERVER_REFERENCE_BYTES_MAX).contains(&text.len())
                && !text.contains(char::is_control)
        };
        match &self.server_reference {
            Some(text) if !is_reference(text) => vec![format!(
                "server_reference: expected 1 to {SERVER_REFERENCE_BYTES_MAX} bytes without control characters, found {text:?}"
            )],
            _ => Vec::new(),
        }
    }
}

/// Everything that is wrong, a line each: place, key, what was expected.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Faults {}

impl Config {
    /// Reads `file`, if there is one, and then `environment`.
    ///
    /// # Errors
    /// Every fault that was found.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let mut merged = file.map_or_else(Table::new, |path| read_file(path, &mut faults));
        for (name, value) in environment {
            if name.starts_with("JETWAY_") && !NOT_CONFIGURATION.contains(&name.as_str()) {
                override_key(&mut merged, &name, value, &mut faults);
            }
        }
        // What was wrong in the file or the environment is reported and left out, so this reads the rest.
        let mut config: Self = match Table::try_into(merged) {
            Ok(config) => config,
            Err(error) => {
                faults.push(error.to_string());
                Self::default()
            }
        };
        faults.extend(config.validate());
        match faults.is_empty() {
            true => {
                let profile = config.profile;
                config.set_profile(profile);
                Ok(config)
            }
            false => Err(Faults(faults)),
        }
    }

    /// Sets the profile, here and in the section that depends on it.
    pub fn set_profile(&mut self, profile: mapping::Profile) {
        self.profile = profile;
        self.mapping.profile = profile;
    }

    /// Whether this process does that.
    #[must_use]
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether it makes events: the clients of the open profile have no thing model.
    #[must_use]
    pub fn makes_events(&self) -> bool {
        self.has_role(Role::Events) && self.profile == mapping::Profile::Device
    }

    /// Whether it writes GPS reports.
    #[must_use]
    pub fn writes_reports(&self) -> bool {
        self.has_role(Role::Gps) && self.profile == mapping::Profile::Device
    }

    /// Whether it empties the outbox: the open profile writes nothing there.
    #[must_use]
    pub fn empties_outbox(&self) -> bool {
        self.has_role(Role::Outbox) && self.profile == mapping::Profile::Device
    }

    /// Whether it runs jobs.
    #[must_use]
    pub fn runs_jobs(&self) -> bool {
        self.has_role(Role::Jobs) && self.profile == mapping::Profile::Device
    }

    /// All listeners, the plain one first.
    pub fn listeners(&self) -> impl Iterator<Item = net::ListenerConfig> {
        let plain = self.mqtt.listen.map(net::ListenerConfig::plain);
        plain.into_iter().chain(self.listener.iter().cloned())
    }

    /// The faults of single values and of values that do not fit each other.
    fn validate(&self) -> Vec<String> {
        let sections = [
            ("mqtt", self.mqtt.validate()),
            ("connection", self.connection.validate()),
            ("session", self.session.validate()),
            ("ownership", self.ownership.validate()),
            ("downlink", self.downlink.validate()),
            ("events", self.events.validate()),
            ("gps", self.gps.validate()),
            ("outbox", self.outbox.validate()),
            ("jobs", self.jobs.validate()),
            ("rpc", self.rpc.validate()),
            ("auth", self.auth.validate()),
            ("catalogue", self.catalogue.validate()),
            ("protection", self.protection.validate()),
            ("database", self.database.validate()),
            ("nats", self.nats.validate()),
            ("streams", self.streams.validate()),
            ("publisher", self.publisher.validate()),
            ("alarm", self.alarm.validate()),
            ("drain", self.drain.validate()),
            ("log", self.log.validate()),
            ("telemetry", self.telemetry.validate()),
        ];
        let mut faults: Vec<String> = sections
            .into_iter()
            .flat_map(|(section, faults)| {
                faults
                    .into_iter()
                    .map(move |fault| format!("[{section}] {fault}"))
            })
            .collect();
        for (number, listener) in (1..).zip(&self.listener) {
            let name = listener.name();
            let found = listener.validate().into_iter();
            faults.extend(found.map(|fault| format!("[[listener]] {number} ({name}) {fault}")));
        }
        let has_work = self.has_role(Role::Gateway)
            || self.makes_events()
            || self.writes_reports()
            || self.empties_outbox()
            || self.runs_jobs();
        if !has_work {
            faults.push(
                "roles: expected \"gateway\", or \"events\", \"gps\", \"outbox\" or \"jobs\" with the device profile"
                    .to_owned(),
            );
        }
        if self.has_role(Role::Gateway) && self.listeners().next().is_none() {
            faults.push(
                "[mqtt] listen: expected an address, or at least one [[listener]]".to_owned(),
            );
        }
        let device_bytes = self.session.uplink_inflight_bytes_max;
        if self.publisher.inflight_bytes_max < device_bytes {
            faults.push(format!(
                "[publisher] inflight_bytes_max: expected at least session.uplink_inflight_bytes_max ({device_bytes}), found {}",
                self.publisher.inflight_bytes_max
            ));
        }
        faults
    }
}

/// Reads a file; what is wrong in it is reported with its line and left out.
fn read_file(path: &Path, faults: &mut Vec<String>) -> Table {
    let mut text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            faults.push(format!(
                "{}: expected a readable file: {error}",
                path.display()
            ));
            return Table::new();
        }
    };
    // One fault at a time is what the parser finds, so each faulty line is blanked and the rest read again.
    loop {
        let Err(error) = toml::from_str::<Config>(&text) else {
            return text.parse().unwrap_or_default();
        };
        let at = error.span().map_or(0, |span| span.start);
        let faulty = faulty_lines(&text, at);
        let lines = text.get(faulty.clone()).unwrap_or_default().to_owned();
        let number = text
            .get(..faulty.start)
            .unwrap_or_default()
            .matches('\n')
            .count()
            + 1;
        let key = lines.split(['=', '\n']).next().unwrap_or_default().trim();
        let message = error.message().trim();
        faults.push(format!("{}:{number}: {key}: {message}", path.display()));
        if lines.trim().is_empty() {
            return Table::new();
        }
        text.replace_range(faulty, &"\n".repeat(lines.matches('\n').count()));
    }
}

/// The line that holds the byte `at`; with all lines of its section, if it is a section's header.
fn faulty_lines(text: &str, at: usize) -> Range<usize> {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let is_header = text.get(start..).is_some_and(|line| line.starts_with('['));
    let end = match is_header {
        true => after.find("\n["),
        false => after.find('\n'),
    };
    start..end.map_or(text.len(), |length| at + length)
}

/// Applies one variable, if the key exists and takes the value.
fn override_key(merged: &mut Table, name: &str, value: String, faults: &mut Vec<String>) {
    let key = name.trim_start_matches("JETWAY_").to_ascii_lowercase();
    // A number or a boolean is read as one first; everything may also be a string.
    let typed = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"));
    let mut error = None;
    for value in typed.into_iter().chain([Value::String(value)]) {
        let change = match key.split_once('_') {
            Some((section, key)) => Table::from_iter([(
                section.to_owned(),
                Value::Table(Table::from_iter([(key.to_owned(), value)])),
            )]),
            None => Table::from_iter([(key.clone(), value)]),
        };
        match Table::try_into::<Config>(change.clone()) {
            Ok(_) => return merge(merged, change),
            Err(found) => error = Some(found),
        }
    }
    if let Some(error) = error {
        faults.push(format!("environment {name}: {}", error.message().trim()));
    }
}

fn merge(into: &mut Table, change: Table) {
    for (key, value) in change {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(change)) => merge(into, change),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
