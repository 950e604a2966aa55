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

mod connection;
mod delivery;
mod keys;
mod puller;
mod store;

pub use connection::{Broker, Config};
pub use puller::Puller;
pub use store::Storing;
