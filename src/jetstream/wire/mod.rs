//! A NATS connection of one publisher shard's own: messages into a socket, answers out of it, and nothing between.
//!
//! The client that everything else uses makes a map of each message's headers and hands the message to its own task; for the
//! uplink that is most of the work. Here a batch is written into one buffer and leaves in one piece. The connection is made by
//! who uses it, and dropped at the first doubt: what was written and not answered is in doubt then, and nothing of it is kept to be
//! sent by itself later.

mod connect;
mod frame;
mod open;
mod reading;

use bytes::Bytes;
use bytestring::ByteString;

pub(super) use connect::{Access, Identity};
pub(super) use frame::{Dispatch, Once, Place, Reply};
pub(super) use open::Wire;

/// An answer on the subject that was subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) subject: ByteString,
    /// Nobody takes messages of that subject.
    pub(super) no_responders: bool,
    pub(super) payload: Bytes,
}

/// What a server says to a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Answer(Answer),
    /// We may not publish to this subject.
    Denied(ByteString),
}
