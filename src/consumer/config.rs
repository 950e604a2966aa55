//! Which durable a service consumes, and how much of it at a time.

use std::sync::Arc;
use std::time::Duration;

/// In which order one replica handles messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those of one subject, which is one device and kind, one after the other as they are in the stream; subjects do not wait
    /// for each other. One that failed comes again after those that were behind it.
    Subject,
    /// As [`Subject`](Self::Subject), with all subjects that begin with the same so many tokens in one order: 4 for the events
    /// `application.device.<productID>.<deviceName>.>` of a device, whatever they are.
    Tokens(usize),
    /// None.
    Any,
}

/// How a service consumes a durable.
#[derive(Debug, Clone)]
pub struct Config {
    /// The stream.
    pub stream: Arc<str>,
    /// The durable's name; whoever says the same one is a replica of the same service.
    pub durable: Box<str>,
    /// What is kept in order.
    pub order: Order,
    /// How many handlers may run at a time; from 1.
    pub concurrency: usize,
    /// How many messages may be in the hands of this replica, running or waiting behind others; at least `concurrency`.
    pub inflight_max: usize,
    /// How long one handler may take; after it the handling failed.
    pub handling_max: Duration,
    /// How long handlers that run may take when the service stops; after it their messages are given back.
    pub drain_max: Duration,
    /// How long the inbox remembers an event. Longer than a stream and the dead letters keep it, together.
    pub inbox_retention: Duration,
}

impl Config {
    /// This durable of this stream, with the defaults: order by subject, 16 handlers, 64 messages, a minute for each, 15 s to
    /// stop, 15 days of inbox.
    #[must_use]
    pub fn new(stream: &str, durable: &str) -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            stream: stream.into(),
            durable: durable.into(),
            order: Order::Subject,
            concurrency: 16,
            inflight_max: 64,
            handling_max: Duration::from_mins(1),
            drain_max: Duration::from_secs(15),
            inbox_retention: 15 * DAY,
        }
    }
}
