//! How far a shard is: a message of the stream of its events, stored in one piece with them.
//!
//! It is written only over the one that its writer has read (`Nats-Expected-Last-Subject-Sequence`), and takes that one's
//! place (`Nats-Rollup`). Who writes over another one than the last is refused, with all events that it brings.

use serde::{Deserialize, Serialize};

use crate::jetstream::{ReadError, Reader};
use crate::mapping;
use crate::message::{Headers, Message};

/// A place in the source stream, and in which division of devices that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// The source stream.
    pub(super) source: String,
    /// When it was created: in a successor of the same name the sequence means nothing.
    pub(super) created: String,
    /// Everything up to here has its events.
    pub(super) sequence: u64,
    /// Of how many shards this is one.
    pub(super) shards: u32,
}

/// A cursor that cannot be read, or the one that was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cursor at sequence {0} cannot be read: {1}")]
    Unreadable(u64, serde_json::Error),
}

impl Cursor {
    /// The last one of a shard and its own sequence in the stream of events; none and 0 if there is none.
    pub(super) async fn read(events: &Reader, shard: u32) -> Result<(Option<Self>, u64), Error> {
        let subject = mapping::events_cursor(shard);
        let Some(stored) = events.last_on(&subject).await? else {
            return Ok((None, 0));
        };
        let cursor = serde_json::from_slice(&stored.message.payload)
            .map_err(|error| Error::Unreadable(stored.sequence, error))?;
        Ok((Some(cursor), stored.sequence))
    }

    /// The message that replaces the cursor with this sequence of its own.
    pub(super) fn message(&self, shard: u32, replaced: u64) -> Message {
        let mut headers = Headers::with_capacity(128);
        headers.push("Content-Type", "application/json");
        headers.push("Nats-Expected-Last-Subject-Sequence", replaced.to_string());
        headers.push("Nats-Rollup", "sub");
        let payload = serde_json::to_vec(self).expect("texts and numbers always serialise");
        Message {
            subject: mapping::events_cursor(shard),
            headers,
            payload: payload.into(),
        }
    }
}
