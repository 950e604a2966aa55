//! What all connections of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;

use super::{Config, Metrics};
use crate::auth::Authenticator;
use crate::downlink;
use crate::mapping::Downlink;
use crate::registry::Registry;
use crate::session;
use crate::status::Status;
use crate::uplink::Uplink;

/// What all connections of a node share.
pub struct Shared {
    /// Limits of a connection.
    pub config: Config,
    /// Limits of a session.
    pub session: session::Config,
    /// Who may connect.
    pub authenticator: Authenticator,
    /// Where messages go.
    pub uplink: Uplink,
    /// Where status goes.
    pub status: Status,
    /// Who is connected here.
    pub registry: Arc<Registry<Downlink>>,
    /// Counters of connections.
    pub metrics: Metrics,
    /// Counters of downlinks.
    pub downlinks: downlink::Metrics,
    /// This run of this node: 16 hexadecimal digits, the first part of every connection id.
    pub run: Box<str>,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// The server that devices are sent to when this node stops.
    pub server_reference: Option<ByteString>,
    /// The latest epoch that was given to a connection.
    pub epoch: AtomicU64,
}

impl Shared {
    /// An epoch later than all before it on this node: the clock in microseconds, unless that went back meanwhile.
    pub(super) fn next_epoch(&self, clock_us: u64) -> u64 {
        let next = |last: u64| clock_us.max(last + 1);
        let relaxed = Ordering::Relaxed;
        let last = self
            .epoch
            .fetch_update(relaxed, relaxed, |last| Some(next(last)));
        next(last.unwrap_or_default())
    }
}
