//! What is stored of a session, so that any node can go on with it after any crash; and where a downlink comes from.
//!
//! A record is a whole picture: whoever holds the latest one knows all that was promised. Its form is JSON with names that a
//! person can read; a field that is not known here is passed over, and one that is missing is empty.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How a session begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Names the session, unique for all time: that of the restored record, or a new one.
    pub id: Box<str>,
    /// What was stored of it; none: it begins empty, and CONNACK says so.
    pub restored: Option<Record>,
    /// Whether it outlives this connection: only then is anything saved.
    pub stored: bool,
    /// Names the delivery stream.
    pub stream: Arc<str>,
}

/// A stored session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Names the session, unique for all time.
    pub id: Box<str>,
    /// Names the delivery stream that all sequences are of.
    pub stream: Arc<str>,
    /// The highest stream sequence that was handed to the session: all up to here is done, or in `inflight`.
    pub taken: u64,
    /// The stream sequence from which packet identifiers are counted: where the first subscription began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// QoS 2 messages received so far: the last part of their message ids, so that none is ever used twice.
    pub received: u64,
    /// What the device subscribes to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<StoredSubscription>,
    /// Downlinks that the device has not finished, in the order in which they were sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inflight: Vec<InflightRecord>,
    /// QoS 2 messages of the device without PUBREL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreleased: Vec<Unreleased>,
}

/// A subscription with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSubscription {
    /// The topic filter, with `$share/name/` if it is shared.
    pub filter: String,
    /// The highest QoS to deliver with: 0, 1 or 2.
    pub qos: u8,
    /// Not the client's own messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_local: bool,
    /// Deliver with the publisher's retain flag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retain_as_published: bool,
    /// The Subscription Identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifier: Option<u32>,
    /// The stream sequence at which it began: it selects only what came later.
    #[serde(default)]
    pub since: u64,
}

/// A downlink that the device has not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InflightRecord {
    /// The packet identifier it is sent with, each time.
    pub packet_id: u16,
    /// 1 or 2.
    pub qos: u8,
    /// Whether PUBREC came: then PUBREL is sent again, and not the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Where the message is read again.
    pub source: Source,
}

/// A QoS 2 message of the device without PUBREL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreleased {
    /// The packet identifier that the device uses for it.
    pub packet_id: u16,
    /// The id it is stored under, each time.
    pub message_id: Box<str>,
    /// Whether it is known to be stored; else a PUBLISH sent again is published again, under the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
}

/// Where a downlink comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The delivery stream, live: the sequence.
    Stream(u64),
    /// The delivery stream, read back: what is delivered with QoS 0 is not sent any more. Once inflight it is `Stream`.
    Backlog(u64),
    /// A shared subscription's share.
    Shared {
        /// The sequence in the delivery stream.
        sequence: u64,
        /// The topic filter with `$share/name/`.
        filter: Box<str>,
    },
    /// The retained message of this topic.
    Retained(Box<str>),
    /// A delivery stream that was replaced: it cannot be read again.
    Gone,
}

impl Source {
    /// Its place in the delivery stream, if it has one there.
    #[must_use]
    pub fn sequence(&self) -> Option<u64> {
        match self {
            Self::Stream(sequence) | Self::Backlog(sequence) | Self::Shared { sequence, .. } => {
                Some(*sequence)
            }
            Self::Retained(_) | Self::Gone => None,
        }
    }
}
