//! The QoS 2 messages of the device that wait for their PUBREL, by packet identifier (MQTT 5 §4.3.3).
//!
//! A PUBLISH with one of these identifiers is the same message again (G06). What is kept of it is its id in the stream, and
//! how far it has come; the message itself is not kept. Where messages are published at their PUBREL it is held in the
//! stream, and these are the ones of this connection.

use std::collections::BTreeMap;

use super::record::Unreleased;
use crate::mqtt::PacketId;

/// All of one session.
#[derive(Debug, Default)]
pub(super) struct UnreleasedMessages(BTreeMap<PacketId, Entry>);

#[derive(Debug)]
struct Entry {
    /// None in a session that is not stored, and where the message is held.
    message_id: Option<Box<str>>,
    progress: Progress,
    /// Whether the device sent it on this connection: Receive Maximum counts only these (§4.9).
    counted: bool,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// An earlier connection received it, and whether it was stored is not known.
    Unknown,
    /// It is on its way into the stream.
    Publishing,
    /// It is stored, and PUBREC says so.
    Stored,
    /// PUBREL came, and what is held is on its way to where it belongs.
    Releasing,
}

impl UnreleasedMessages {
    pub(super) fn restore(records: Vec<Unreleased>) -> Self {
        let entry = |record: Unreleased| {
            let entry = Entry {
                message_id: Some(record.message_id),
                progress: match record.stored {
                    true => Progress::Stored,
                    false => Progress::Unknown,
                },
                counted: false,
            };
            Some((PacketId::new(record.packet_id)?, entry))
        };
        Self(records.into_iter().filter_map(entry).collect())
    }

    pub(super) fn records(&self) -> Vec<Unreleased> {
        let record = |(packet_id, entry): (&PacketId, &Entry)| Unreleased {
            packet_id: packet_id.get(),
            message_id: entry.message_id.clone().unwrap_or_default(),
            stored: entry.progress == Progress::Stored,
        };
        self.0.iter().map(record).collect()
    }

    /// None: the packet identifier is not in use.
    pub(super) fn progress(&self, packet_id: PacketId) -> Option<Progress> {
        self.0.get(&packet_id).map(|entry| entry.progress)
    }

    /// A new message.
    pub(super) fn receive(&mut self, packet_id: PacketId, message_id: Option<Box<str>>) {
        let entry = Entry {
            message_id,
            progress: Progress::Publishing,
            counted: true,
        };
        self.0.insert(packet_id, entry);
    }

    /// A message that is sent again is published again: its id.
    pub(super) fn republish(&mut self, packet_id: PacketId) -> Option<Box<str>> {
        let entry = self.0.get_mut(&packet_id)?;
        entry.progress = Progress::Publishing;
        entry.message_id.clone()
    }

    /// PUBREC goes out and says that it is stored.
    pub(super) fn store(&mut self, packet_id: PacketId) {
        if let Some(entry) = self.0.get_mut(&packet_id) {
            entry.progress = Progress::Stored;
        }
    }

    /// PUBREL came for a message that is held, maybe since an earlier connection.
    pub(super) fn release(&mut self, packet_id: PacketId) {
        let entry = self.0.entry(packet_id).or_insert(Entry {
            message_id: None,
            progress: Progress::Releasing,
            counted: false,
        });
        entry.progress = Progress::Releasing;
    }

    /// The message is done, or PUBREC refuses it: the identifier is free.
    pub(super) fn remove(&mut self, packet_id: PacketId) {
        self.0.remove(&packet_id);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Messages of this connection that have their PUBREC: with those that wait for one, what Receive Maximum counts.
    pub(super) fn received(&self) -> usize {
        let answered = |entry: &&Entry| {
            entry.counted && matches!(entry.progress, Progress::Stored | Progress::Releasing)
        };
        self.0.values().filter(answered).count()
    }
}
