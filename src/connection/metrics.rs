//! What is counted of connections; every label has a fixed set of values (G38).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::net;
use crate::session::CloseReason;

/// Why a socket did not become a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejected {
    Timeout,
    SocketClosed,
    Proxy,
    Tls,
    WebSocket,
    Malformed,
    Unsupported,
    NotAuthorized,
    Unavailable,
    Limited,
}

impl Rejected {
    pub(super) fn by(error: &net::Error) -> Self {
        match error {
            net::Error::Proxy(_) => Self::Proxy,
            net::Error::Tls(_) => Self::Tls,
            net::Error::WebSocket(_) => Self::WebSocket,
            net::Error::Closed(_) => Self::SocketClosed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::SocketClosed => "socket_closed",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::NotAuthorized => "not_authorized",
            Self::Unavailable => "unavailable",
            Self::Limited => "limited",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    reason: &'static str,
}

/// Counters of a node's connections; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Live now.
    pub connections: Gauge,
    /// Accepted CONNECTs.
    pub accepted: Counter,
    /// PUBLISH packets from devices.
    pub publishes: Counter,
    /// Publishes that the acl or the mapping refused.
    pub denied: Counter,
    /// QoS 0 publishes dropped for want of room.
    pub shed: Counter,
    /// Times a device was held back for want of room.
    pub held: Counter,
    rejected: Family<Label, Counter>,
    closed: Family<Label, Counter>,
}

impl Metrics {
    /// Counts a socket that did not become a connection.
    pub fn reject(&self, reason: Rejected) {
        let reason = reason.as_str();
        self.rejected.get_or_create(&Label { reason }).inc();
    }

    /// Counts the end of a connection.
    pub fn close(&self, reason: CloseReason) {
        let reason = reason.as_str();
        self.closed.get_or_create(&Label { reason }).inc();
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Live connections", self.connections.clone());
        registry.register("connects", "Accepted CONNECTs", self.accepted.clone());
        registry.register(
            "connects_rejected",
            "Sockets that did not become connections",
            self.rejected.clone(),
        );
        registry.register(
            "disconnects",
            "Ended connections by reason",
            self.closed.clone(),
        );
        registry.register(
            "uplink_publishes",
            "PUBLISH packets from devices",
            self.publishes.clone(),
        );
        registry.register(
            "uplink_denied",
            "PUBLISH packets refused by acl or mapping",
            self.denied.clone(),
        );
        registry.register(
            "uplink_shed",
            "QoS 0 messages dropped for want of room",
            self.shed.clone(),
        );
        registry.register(
            "uplink_held",
            "Times a device was held back for want of room",
            self.held.clone(),
        );
    }
}
