//! What one client saw and did, in order, with numbers that compare between clients.
//!
//! A tick is taken before something is sent and after something was read: if one tick is below another, the one thing was
//! over before the other began.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jetway::mqtt::QoS;

/// Numbers all entries of a run.
#[derive(Debug)]
pub(crate) struct Clock {
    ticks: AtomicU64,
    started: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        Moment {
            tick: self.ticks.fetch_add(1, Ordering::SeqCst),
            at: self.started.elapsed(),
        }
    }
}

/// A place in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Its number.
    pub(crate) tick: u64,
    /// Since the start.
    pub(crate) at: Duration,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// CONNECT, to this gateway.
    Connecting {
        life: u64,
        node: usize,
        clean: bool,
        expiry_s: u32,
        /// Will QoS and Will Delay Interval.
        will: Option<(QoS, u32)>,
    },
    /// CONNACK 0x00.
    Connected { present: bool },
    /// Another CONNACK.
    Refused { reason: String },
    /// PUBLISH.
    Publish {
        text: String,
        topic: String,
        qos: QoS,
        retain: bool,
        empty: bool,
        packet_id: u16,
        dup: bool,
    },
    /// PUBACK, or the first PUBREC.
    Acknowledged { text: String, error: bool },
    /// PUBCOMP.
    Completed { text: String },
    /// SUBSCRIBE.
    Subscribing { wishes: Vec<usize> },
    /// SUBACK; an error where it was not granted what was asked.
    Subscribed { wishes: Vec<usize>, error: bool },
    /// UNSUBSCRIBE.
    Unsubscribing { wish: usize },
    /// UNSUBACK.
    Unsubscribed { wish: usize },
    /// PUBLISH from the gateway; `again`: a QoS 2 message with a packet identifier that waits for its PUBREL.
    Received {
        text: String,
        topic: String,
        qos: QoS,
        retain: bool,
        packet_id: u16,
        dup: bool,
        again: bool,
    },
    /// DISCONNECT.
    Disconnecting { will: bool },
    /// The connection is over for the client.
    Ended { how: Ended },
    /// Something against the rules, seen at once.
    Wrong(String),
    /// Everything that was owed has come.
    Drained,
}

/// How a connection was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// After DISCONNECT; the gateway closed.
    Closed,
    /// The client dropped it.
    Dropped,
    /// The client left it to the next one.
    Left,
    /// The gateway closed, or its process died; the reason of its DISCONNECT.
    Lost(Option<String>),
}

/// An event and when it was.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// When.
    pub(crate) moment: Moment,
    /// What.
    pub(crate) event: Event,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moment { tick, at } = self.moment;
        write!(f, "{tick:>8} {:>9.3}s {:?}", at.as_secs_f64(), self.event)
    }
}

impl Event {
    /// The message that it is about.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Publish { text, .. }
            | Self::Acknowledged { text, .. }
            | Self::Completed { text }
            | Self::Received { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether it is about connection, session and subscriptions.
    pub(crate) fn is_of_session(&self) -> bool {
        self.text().is_none()
    }
}
