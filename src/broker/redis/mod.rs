//! Redis Streams (from 6.2): one stream for each stream of the platform, one consumer group for each durable.
//!
//! The subject is a field of an entry and no part of a key: a durable selects by wildcards, which keys cannot be read by, devices would be
//! millions of keys, and one stream is one order for all that is about a device. What a durable does not select is acknowledged
//! inside Redis and never sent.
//!
//! Keys: `<prefix>:{<stream>}` the stream; `…:id:<uuid>` an id that was stored, until the duplicate window is over; `…:durables` a hash of durables as
//! the JetStream API would say them; `…:dead:<durable>` a stream of what was given up. The braces keep them in one slot where Redis is a
//! cluster behind a proxy; the redirections of a cluster are not followed here.
//!
//! What differs from JetStream: a stream drops its oldest entries above `messages_max`, also such as a durable was not given; and Redis keeps over a crash
//! what it was told to keep: with `appendfsync always` all that it acknowledged.

mod delivery;
mod keys;
mod puller;
mod store;

pub use puller::Puller;
pub use store::Storing;

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

use keys::Keys;

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
    client: Client,
    connection: ConnectionManager,
    prefix: Box<str>,
    messages_max: usize,
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

    fn keys(&self, stream: &str) -> Keys {
        Keys::new(&self.prefix, stream)
    }
}

/// A connection that is made when it is needed first.
fn connection(client: &Client) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(CONNECT_MAX))
        .set_response_timeout(Some(ANSWER_MAX));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}
