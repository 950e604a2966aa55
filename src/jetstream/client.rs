//! The NATS connection: made once, reconnected for ever, its state visible to those who publish.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State as ConnectionState;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use futures_util::FutureExt;
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use tokio::sync::watch;

use super::shard::wire_headers;
use super::wire::{Access, Identity};
use super::{Error, VERSION_MIN, Version};
use crate::message::{Headers, Message};

/// How to reach NATS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// One or more server URLs, separated by commas.
    pub url: String,
    /// How long the first connection may take, in milliseconds; after it the start fails.
    pub connect_timeout_ms: u64,
    /// How long a JetStream API request may take, in milliseconds.
    pub request_timeout_ms: u64,
    /// Credentials file (`.creds`), if the server asks for one.
    pub credentials: Option<std::path::PathBuf>,
    /// File with the seed of an nkey (`SU…`), if the server knows the user by that. This or `credentials`.
    pub nkey: Option<std::path::PathBuf>,
    /// Use streams that acknowledge before they store; a PUBACK then means less than stored.
    pub allow_async_persist: bool,
    /// Bring streams that differ from `subjects/streams.toml` in line with it at start.
    pub apply: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            connect_timeout_ms: 30_000,
            request_timeout_ms: 5_000,
            credentials: None,
            nkey: None,
            allow_async_persist: false,
            apply: false,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for url in self.url.split(',') {
            let parsed = url.trim().parse::<ServerAddr>();
            let fault = match &parsed {
                Ok(server) if server.host().is_empty() => "no host".to_owned(),
                Ok(server) if server.is_websocket() => {
                    "NATS over WebSocket is not spoken here, use nats:// or tls://".to_owned()
                }
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            faults.push(format!(
                "url: expected nats://HOST:PORT, found {url:?}: {fault}"
            ));
        }
        if self.credentials.is_some() && self.nkey.is_some() {
            faults.push("nkey: expected this or credentials, found both".to_owned());
        }
        if self.connect_timeout_ms == 0 {
            faults.push("connect_timeout_ms: expected more than 0".to_owned());
        }
        if self.request_timeout_ms == 0 {
            faults.push("request_timeout_ms: expected more than 0".to_owned());
        }
        faults
    }
}

/// Whether the connection stands, and how often it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Usable now.
    pub connected: bool,
    /// Raised by every reconnect: what was in flight before is in doubt.
    pub epoch: u64,
}

/// The shared NATS connection.
#[derive(Clone)]
pub struct Link {
    /// The client; cheap to clone.
    pub client: Client,
    /// Its state.
    pub state: watch::Receiver<State>,
    /// Messages that the client dropped because a subscription was not read in time.
    pub dropped: Counter,
    /// What the server said last that this user may not do.
    denied: Arc<Mutex<Option<Box<str>>>>,
    /// For connections beside this one.
    pub(super) access: Arc<Access>,
    url: Arc<str>,
}

impl Link {
    /// Connects, and checks the server's version.
    ///
    /// # Errors
    /// [`Error::Connect`] when no server answers in time, [`Error::ServerTooOld`].
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let dropped = Counter::default();
        let counter = dropped.clone();
        let denied = Arc::<Mutex<Option<Box<str>>>>::default();
        let last_denied = Arc::clone(&denied);
        let (sender, state) = watch::channel(State {
            connected: true,
            epoch: 0,
        });
        let mut options = ConnectOptions::new()
            .name("jetway")
            .connection_timeout(Duration::from_secs(5))
            .request_timeout(Some(Duration::from_millis(config.request_timeout_ms)))
            // A connection that carries nothing any more is given up after the third ping in vain: 9 s.
            .ping_interval(Duration::from_secs(3))
            .max_reconnects(None)
            .reconnect_delay_callback(reconnect_delay)
            .subscription_capacity(64 * 1024)
            .event_callback(move |event| {
                match denial(&event) {
                    Some(words) => {
                        tracing::error!(%words, "not permitted to this user of NATS");
                        *last_denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
                    }
                    None => observe(&sender, &counter, &event),
                }
                std::future::ready(())
            });
        if let Some(file) = &config.credentials {
            options = options
                .credentials_file(file)
                .await
                .map_err(|error| connect_error(config, &error))?;
        }
        if let Some(file) = &config.nkey {
            let seed = std::fs::read_to_string(file);
            let seed = seed.map_err(|error| connect_error(config, &error))?;
            options = options.nkey(seed.trim().to_owned());
        }
        // The URLs were read when the configuration was checked, and again by the client.
        let urls = config.url.split(',');
        let servers: Vec<ServerAddr> = urls.filter_map(|url| url.trim().parse().ok()).collect();
        // The client takes no user from a URL.
        let known = servers.iter().find(|server| server.username().is_some());
        let user = known.map(|server| (server.username(), server.password()));
        options = match user {
            Some((Some(user), Some(password))) => {
                options.user_and_password(user.to_owned(), password.to_owned())
            }
            Some((Some(token), None)) => options.token(token.to_owned()),
            _ => options,
        };
        let client = first_connection(config, options).await?;
        let link = Self {
            access: Access::new(servers, identity(config)),
            client,
            state,
            dropped,
            denied,
            url: without_credentials(&config.url).into(),
        };
        let found = link.client.server_info().version;
        if Version::parse(&found).is_none_or(|version| version < VERSION_MIN) {
            return Err(Error::ServerTooOld {
                url: link.url().to_owned(),
                found,
            });
        }
        Ok(link)
    }

    /// Where it connects, without user name and password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the server said last that this user may not do, if it ever said so: whatever waits for it waits in vain.
    #[must_use]
    pub fn denied(&self) -> Option<Box<str>> {
        let denied = self.denied.lock();
        denied.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes if the connection takes it at once, which it does unless NATS takes nothing for long; whether it did.
    pub fn publish_now(&self, message: Message) -> bool {
        let subject = message.subject.to_string();
        let headers = wire_headers(&message.headers);
        let publish = self
            .client
            .publish_with_headers(subject, headers, message.payload);
        matches!(publish.now_or_never(), Some(Ok(())))
    }

    /// Returns when it stands.
    pub async fn connected(&self) {
        if !self.is_connected() {
            let mut state = self.state.clone();
            // It ends with the client.
            drop(state.wait_for(|state| state.connected).await);
        }
    }

    /// A message as it came, as plain data.
    #[must_use]
    pub fn read(message: async_nats::Message) -> Message {
        let sent = message.headers.unwrap_or_default();
        let mut headers = Headers::with_capacity(64 * sent.len());
        for (name, values) in sent.iter() {
            let name: &str = name.as_ref();
            for value in values {
                headers.push(name, value.as_str());
            }
        }
        Message {
            subject: message.subject.as_str().into(),
            headers,
            payload: message.payload,
        }
    }

    /// Asks whoever answers under the message's subject, and waits no longer than `limit`.
    ///
    /// # Errors
    /// The client's: nobody is there, or nobody answered in time.
    pub async fn request(
        &self,
        message: Message,
        limit: Duration,
    ) -> Result<Message, async_nats::RequestError> {
        let request = async_nats::Request::new()
            .headers(wire_headers(&message.headers))
            .payload(message.payload)
            .timeout(Some(limit));
        let subject = message.subject.to_string();
        let reply = self.client.send_request(subject, request).await?;
        Ok(Self::read(reply))
    }

    /// How often it was made; asked of the client, as the state below.
    #[must_use]
    pub fn connects(&self) -> u64 {
        let statistics = self.client.statistics();
        statistics
            .connects
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether it stands now; asked of the client, whose events may be late, or lost in a flood of them.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == ConnectionState::Connected
    }
}

/// The file that says who we are, where the URL does not.
fn identity(config: &Config) -> Option<Identity> {
    let credentials = config.credentials.clone().map(Identity::Credentials);
    credentials.or_else(|| config.nkey.clone().map(Identity::Nkey))
}

/// Tries until the configured time is over: servers of one host often start together.
async fn first_connection(config: &Config, options: ConnectOptions) -> Result<Client, Error> {
    // Without the passwords: it would log them, and has them from the options.
    let urls = without_credentials(&config.url);
    let servers: Vec<&str> = urls.split(',').collect();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(config.connect_timeout_ms);
    let mut delay = Duration::from_millis(50);
    loop {
        let error = match options.clone().connect(&servers).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        if tokio::time::Instant::now() + delay > deadline {
            return Err(connect_error(config, &error));
        }
        tracing::warn!(url = without_credentials(&config.url), %error, "NATS is not there yet");
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(Duration::from_secs(2));
    }
}

/// Which permission is missing, if that is what a server's error says.
fn denial(event: &Event) -> Option<Box<str>> {
    let Event::ServerError(error) = event else {
        return None;
    };
    let words = error.to_string();
    Some(words.split_once("Permissions Violation for ")?.1.into())
}

/// Server URLs as they may be logged: what stands before an `@` is a user name and password, or a token.
fn without_credentials(urls: &str) -> String {
    let address = |url: &str| match url.rsplit_once('@') {
        None => url.to_owned(),
        Some((before, host)) => {
            let scheme = before.find("://").and_then(|at| before.get(..at + 3));
            scheme.unwrap_or_default().to_owned() + host
        }
    };
    let addresses: Vec<String> = urls.split(',').map(|url| address(url.trim())).collect();
    addresses.join(",")
}

fn connect_error(config: &Config, error: &dyn std::fmt::Display) -> Error {
    Error::Connect {
        url: without_credentials(&config.url),
        reason: error.to_string(),
    }
}

/// 20 ms at first, so that a restarted server is found at once; at most 250 ms, so that a long outage costs little and its end
/// is soon known.
fn reconnect_delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.min(6)).unwrap_or(6);
    Duration::from_millis(20 * 2u64.pow(doublings)).min(Duration::from_millis(250))
}

fn observe(state: &watch::Sender<State>, dropped: &Counter, event: &Event) {
    match event {
        Event::Connected => {
            state.send_modify(|state| {
                state.connected = true;
                state.epoch += 1;
            });
            tracing::info!("NATS connected");
        }
        Event::Disconnected => {
            state.send_modify(|state| state.connected = false);
            tracing::warn!("NATS disconnected");
        }
        Event::Closed => {
            state.send_modify(|state| state.connected = false);
            // Reconnecting never gives up, so it was us who closed it.
            tracing::info!("NATS connection closed");
        }
        Event::SlowConsumer(subscription) => {
            // It comes once for each message; what is logged gets rarer while it goes on.
            let count = dropped.inc() + 1;
            if count.is_power_of_two() {
                tracing::warn!(
                    subscription,
                    count,
                    "NATS subscription overflowed, messages were dropped"
                );
            }
        }
        Event::ServerError(error) => tracing::warn!(%error, "NATS server error"),
        Event::ClientError(error) => tracing::warn!(%error, "NATS client error"),
        Event::LameDuckMode | Event::Draining => tracing::info!(%event, "NATS server"),
    }
}

#[cfg(test)]
mod tests {
    use async_nats::ServerError;

    use super::*;

    #[test]
    fn reconnects_quickly_and_then_four_times_a_second() {
        assert_eq!(reconnect_delay(0), Duration::from_millis(20));
        assert_eq!(reconnect_delay(1_000), Duration::from_millis(250));
    }

    #[test]
    fn a_missing_permission_is_named() {
        let said = |words: &str| Event::ServerError(ServerError::Other(words.to_owned()));
        let violation = said("Permissions Violation for Publish to \"a.b\"");
        assert_eq!(denial(&violation).as_deref(), Some("Publish to \"a.b\""));
        assert_eq!(denial(&said("Stale Connection")), None);
        assert_eq!(denial(&Event::Disconnected), None);
    }

    #[test]
    fn only_what_publishers_speak_is_taken() {
        let faults = |url: &str| {
            let config = Config {
                url: url.to_owned(),
                ..Config::default()
            };
            config.validate()
        };
        assert!(faults("nats://a:4222, tls://b").is_empty());
        for url in ["ws://a:80", "nats://a, wss://b"] {
            let faults = faults(url);
            assert!(faults[0].contains("WebSocket"), "{faults:?}");
        }
    }

    #[test]
    fn no_credentials_are_logged() {
        for (url, logged) in [
            ("nats://a:4222", "nats://a:4222"),
            (
                "nats://me:p@ss@a:4222, tls://token@b",
                "nats://a:4222,tls://b",
            ),
            ("me:secret@a", "a"),
        ] {
            assert_eq!(without_credentials(url), logged);
        }
    }
}
