//! Redis as it is configured and reached: one connection for everything but waiting, made when it is needed and anew when it is lost.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

use super::keys::Keys;

/// How long a connection, or one answer, may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Where Redis is, and how it is used.
#[derive(Debug, Clone)]
pub struct Config {
    /// `redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS.
    pub url: String,
    /// What all keys begin with.
    pub prefix: Box<str>,
    /// About how many entries a stream keeps.
    pub messages_max: usize,
}

impl Config {
    /// Redis at this address, with the defaults: keys `jetway:…`, a million entries a stream.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: "jetway".into(),
            messages_max: 1_000_000,
        }
    }
}

/// A Redis server; cheap to clone, all clones have one connection, which is made anew when it is lost.
#[derive(Clone)]
pub struct Broker {
    pub(super) client: Client,
    pub(super) connection: ConnectionManager,
    prefix: Box<str>,
    pub(super) messages_max: usize,
}

impl Broker {
    /// Redis as configured. It need not be there yet.
    ///
    /// # Errors
    /// When the URL is none of Redis.
    pub fn new(config: &Config) -> Result<Self, RedisError> {
        let client = Client::open(&*config.url)?;
        Ok(Self {
            connection: connection(&client)?,
            client,
            prefix: config.prefix.clone(),
            messages_max: config.messages_max,
        })
    }

    pub(super) fn keys(&self, stream: &str) -> Keys {
        Keys::new(&self.prefix, stream)
    }
}

/// A connection that is made when it is needed first.
pub(super) fn connection(client: &Client) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(Some(ANSWER_MAX));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}
