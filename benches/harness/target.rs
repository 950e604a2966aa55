//! What is measured: where it is, what its devices and topics are called, and whose CPU time counts.

use std::path::Path;

use anyhow::{Context, Result, bail};
use jetway::auth::credentials::Credentials;

use crate::arguments::{Arguments, Name};
use crate::client::{Login, Server, Tls};
use crate::servers::{self, Running};

/// The product of devices that are made here.
pub(crate) const PRODUCT: &str = "load";

/// An MQTT server, the NATS behind it if there is one, and who they are.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Name,
    /// None for a target without MQTT.
    pub(crate) server: Option<Server>,
    /// The addresses of its nats-servers, separated by commas.
    nats: Option<String>,
    /// The stream that has the uplinks.
    pub(crate) stream: Option<String>,
    pub(crate) naming: Naming,
    /// Processes by what they are.
    pub(crate) watched: Vec<(String, u32)>,
    /// End with it.
    _running: Running,
}

/// What devices, topics and subjects are called.
pub(crate) enum Naming {
    /// As the device profile has it.
    Device(Vec<Own>),
    /// Any client, topics `bench/<number>/up` and `down`; in NATS with this in front.
    Open { prefix: &'static str },
}

/// A device of the device profile.
pub(crate) struct Own {
    pub(crate) product: String,
    pub(crate) name: String,
    pub(crate) credentials: Credentials,
}

impl Naming {
    /// Who device `number` is; none if there is no such device.
    pub(crate) fn login(&self, number: usize) -> Option<Login> {
        match self {
            Self::Open { .. } => Some(Login {
                client_id: format!("bench-{number}"),
                proof: None,
            }),
            Self::Device(all) => all.get(number).map(|own| Login {
                client_id: own.credentials.client_id.clone(),
                proof: Some((
                    own.credentials.username.clone(),
                    own.credentials.password.clone(),
                )),
            }),
        }
    }

    /// Where it publishes.
    pub(crate) fn up(&self, number: usize) -> String {
        self.topic("up", "property", number)
            .unwrap_or_else(|| format!("bench/{number}/up"))
    }

    /// Where it publishes events of its model.
    pub(crate) fn event(&self, number: usize) -> String {
        self.topic("up", "event", number)
            .unwrap_or_else(|| format!("bench/{number}/event"))
    }

    /// What it subscribes to.
    pub(crate) fn down(&self, number: usize) -> String {
        self.topic("down", "property", number)
            .unwrap_or_else(|| format!("bench/{number}/down"))
    }

    fn topic(&self, direction: &str, kind: &str, number: usize) -> Option<String> {
        let Self::Device(all) = self else {
            return None;
        };
        let Own { product, name, .. } = all.get(number)?;
        Some(format!("$thing/{direction}/{kind}/{product}/{name}"))
    }

    /// The subject on which a service reaches it, stored on the way where the target does that.
    pub(crate) fn down_subject(&self, number: usize) -> Option<String> {
        match self {
            Self::Open { prefix } => Some(format!("{prefix}bench.{number}.down")),
            Self::Device(all) => all
                .get(number)
                .map(|Own { product, name, .. }| format!("device.down.thing.{product}.{name}")),
        }
    }

    /// The subject of a request to it; only Jetway's device profile has that.
    pub(crate) fn call_subject(&self, number: usize) -> Option<String> {
        let Self::Device(all) = self else {
            return None;
        };
        let Own { product, name, .. } = all.get(number)?;
        Some(format!("device.rpc.mqtt.thing.{product}.{name}"))
    }

    /// Whose uplink has this subject.
    pub(crate) fn device_of(&self, subject: &str) -> Option<usize> {
        match self {
            Self::Open { prefix } => {
                let rest = subject.strip_prefix(prefix)?.strip_prefix("bench.")?;
                rest.split('.').next()?.parse().ok()
            }
            Self::Device(all) => {
                let (rest, name) = subject.rsplit_once('.')?;
                let (_, product) = rest.rsplit_once('.')?;
                let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
                let is_it = |own: &&Own| own.name == name && own.product == product;
                let guess = digits
                    .parse()
                    .ok()
                    .filter(|number| all.get(*number).is_some_and(|own| is_it(&own)));
                guess.or_else(|| all.iter().position(|own| is_it(&own)))
            }
        }
    }
}

impl Target {
    /// Starts it, or finds it, with as many devices as are asked for.
    pub(crate) async fn start(name: Name, replicas: usize, arguments: &Arguments) -> Result<Self> {
        let started = servers::start(name, replicas, arguments).await?;
        let tls = match (&started.certificate, &arguments.tls) {
            (_, None) => None,
            (Some(file), Some(_)) => Some(Tls::trusting(file, &arguments.tls_name)?),
            (None, Some(_)) => bail!("--tls: expected the file with the server's CA certificate"),
        };
        let version = arguments.mqtt_version;
        let server = started.mqtt.map(|address| Server {
            address,
            tls,
            version,
        });
        Ok(Self {
            name: match replicas {
                1 => name.text(),
                _ => format!("{} R{replicas}", name.text()),
            },
            kind: name,
            server,
            nats: started.nats,
            stream: started.stream,
            naming: started.naming,
            watched: started.watched,
            _running: started.running,
        })
    }

    /// Connected to its nats-servers, if it has any.
    pub(crate) async fn nats(&self) -> Result<Option<async_nats::Client>> {
        let Some(urls) = &self.nats else {
            return Ok(None);
        };
        let urls: Vec<&str> = urls.split(',').collect();
        Ok(Some(async_nats::connect(urls).await?))
    }

    pub(crate) fn server(&self) -> Result<&Server> {
        self.server
            .as_ref()
            .with_context(|| format!("{} has no MQTT; choose fan-in", self.name))
    }

    pub(crate) fn login(&self, number: usize) -> Result<Login> {
        self.naming
            .login(number)
            .with_context(|| format!("there is no device {number}; --devices-file has fewer"))
    }
}

/// Devices from what `jetway device add --json` printed, a JSON object a line.
pub(crate) fn devices(file: &Path) -> Result<Vec<Own>> {
    #[derive(serde::Deserialize)]
    struct Line {
        product: String,
        name: String,
        client_id: String,
        username: String,
        password: String,
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut devices = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line: Line = serde_json::from_str(line).with_context(|| {
            format!(
                "{}:{number}: a line of jetway device add --json",
                file.display()
            )
        })?;
        devices.push(Own {
            product: line.product,
            name: line.name,
            credentials: Credentials {
                client_id: line.client_id,
                username: line.username,
                password: line.password,
            },
        });
    }
    if devices.is_empty() {
        bail!("{}: no device", file.display());
    }
    Ok(devices)
}
