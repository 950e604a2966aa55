//! What all connections of a node share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytestring::ByteString;

use super::{Config, Metrics, Recent};
use crate::auth::{Authenticator, ProductRules};
use crate::dlq::DeadLetters;
use crate::downlink::{self, Delivery, Finished, Reports, Retained, Shares};
use crate::jetstream::Reader;
use crate::mapping::Mapping;
use crate::ownership::Ownership;
use crate::protection::Protection;
use crate::registry::Registry;
use crate::router::Router;
use crate::rpc::Board;
use crate::session;
use crate::status::Status;
use crate::tasks::Tasks;
use crate::telemetry;
use crate::topology::Desk;
use crate::uplink::Uplink;

/// What all connections of a node share.
pub struct Shared {
    /// Limits of a connection.
    pub config: Config,
    /// Limits of a session.
    pub session: Arc<session::Config>,
    /// What may wait for a device.
    pub downlink: downlink::Config,
    /// How long the progress of a session may stay unwritten, in milliseconds.
    pub save_interval_ms: u64,
    /// How much anybody may take.
    pub protection: Arc<Protection>,
    /// Who may connect.
    pub authenticator: Authenticator,
    /// What products allow and deny besides.
    pub rules: ProductRules,
    /// Who was shut out lately.
    pub revocations: Recent,
    /// Gateway devices that got other sub-devices lately.
    pub rebindings: Recent,
    /// What gateway devices are answered about their sub-devices, if that is known here.
    pub desk: Option<Desk>,
    /// Topics and subjects.
    pub mapping: Arc<Mapping>,
    /// Where messages go.
    pub uplink: Uplink,
    /// Where status goes.
    pub status: Status,
    /// Who holds which session.
    pub ownership: Ownership,
    /// Who is connected here.
    pub registry: Arc<Registry<Delivery>>,
    /// Who subscribed here to what.
    pub router: Arc<Router<Delivery>>,
    /// Shared subscriptions.
    pub shares: Shares<Delivery>,
    /// What was delivered, or is to be.
    pub reader: Reader,
    /// Retained messages.
    pub retained: Retained,
    /// Who wants to know what became of a downlink.
    pub reports: Reports,
    /// What becomes of downlinks that devices are done with.
    pub finished: Finished,
    /// What becomes of uplinks that have no place in a stream.
    pub dead_letters: DeadLetters,
    /// What services ask devices that are connected here.
    pub asks: Board,
    /// Counters of connections.
    pub metrics: Metrics,
    /// Counters of downlinks.
    pub downlinks: downlink::Metrics,
    /// What connections start beside themselves.
    pub tasks: Tasks,
    /// This run of this node: 16 hexadecimal digits, the first part of every connection id.
    pub run: Box<str>,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// The server that devices are sent to when this node stops.
    pub server_reference: Option<ByteString>,
}

impl Shared {
    /// A client identifier that nobody has or guesses.
    pub(super) fn assigned_client_id(&self) -> ByteString {
        let random = || telemetry::random_u64();
        format!("auto-{:016x}{:016x}", random(), random()).into()
    }
}
