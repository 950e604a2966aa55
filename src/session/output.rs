//! What the session is fed with and what it gives back, as plain data.

use super::CloseReason;
use super::record::{Record, Source};
use crate::mqtt::{Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, TopicFilter};

/// What the connection has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write this packet.
    Send(Packet),
    /// Store this message; it counts in the window until `handle_stored`, `handle_not_stored` or `handle_denied`.
    Publish {
        /// The message.
        publish: Publish,
        /// The id to store it under, if it must be the same whenever it is sent again: QoS 2 of a stored session.
        message_id: Option<Box<str>>,
    },
    /// Store this QoS 2 message aside, in place of what is there of its packet identifier; it counts as [`Self::Publish`] does.
    Hold {
        /// The message.
        publish: Publish,
        /// Its packet identifier.
        packet_id: PacketId,
    },
    /// Store what this session held under this packet identifier where it belongs, and forget it there; it counts in the
    /// window until `handle_stored`, `handle_not_stored` or, if there is nothing, `handle_nothing_held`.
    Release(PacketId),
    /// Decide which filters are allowed and attach them: `handle_authorized`.
    Authorize(Subscribe),
    /// A filter is attached once less.
    Detach(TopicFilter),
    /// Read the retained messages of these filters: `handle_retained` for each.
    FetchRetained(Vec<TopicFilter>),
    /// Store the session, then call `handle_saved`. There is no other before that.
    Save(Record),
    /// The device finished a downlink with QoS 1 or 2: it has it, or why not.
    Settled {
        /// Where it came from.
        source: Source,
        /// The device's Reason Code if that is an error.
        outcome: Result<(), ReasonCode>,
    },
    /// Write what is left, then close.
    Close(CloseReason),
}

/// Whether a PUBLISH may enter the session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Feed it.
    Admit,
    /// Keep it and read no further until something was stored.
    Hold,
    /// Drop and count it: QoS 0 beyond the window.
    Shed,
}

/// A downlink on its way to the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The message with the QoS and retain flag that it was published with, and without a packet identifier.
    pub publish: Publish,
    /// Where it comes from.
    pub source: Source,
    /// Whether this very client published it.
    pub own: bool,
}

/// What became of a downlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It is on its way, with this QoS; with QoS 0 nothing more is heard of it.
    Sent(QoS),
    /// No filter of this session matches.
    NotSubscribed,
    /// It is not for this session: its own with No Local, from before the subscription, or handed over before.
    Skipped,
    /// With QoS 0 it is not sent late: it is of a backlog.
    Missed,
}
