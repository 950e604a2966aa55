//! Why a message cannot be mapped, up or down: what a caller tells its device or its sender.
//!
//! Faults of the rules themselves are [`Fault`](super::Fault).

use super::header::BYTES_MAX;
use super::subject::SUBJECT_BYTES_MAX;

/// Why a message cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An uplink on a topic that is none of the device's up topics.
    #[error("topic {0:?} is no up topic of the device")]
    Unmapped(String),
    /// A downlink on a subject of no down rule.
    #[error("subject {0:?} is of no down rule")]
    Subject(String),
    /// A subject that NATS could refuse.
    #[error("subject has {0} bytes, expected at most {SUBJECT_BYTES_MAX}")]
    SubjectTooLong(usize),
    /// Headers that JetStream would refuse.
    #[error("headers have {0} bytes, expected at most {max}", max = BYTES_MAX)]
    HeadersTooLong(usize),
    /// A header or a field of [`DeviceMessage`](super::DeviceMessage) in a downlink.
    #[error("{place}: found {found:?}, expected {expected}")]
    Value {
        /// Which, such as `header Jw-Qos` or `field topic`.
        place: &'static str,
        /// Its start.
        found: String,
        /// What it can be.
        expected: String,
    },
    /// A downlink that says it is a [`DeviceMessage`](super::DeviceMessage) and is none.
    #[error("payload is no jetway.v1.DeviceMessage: {0}")]
    Protobuf(String),
}

impl Error {
    /// A word of a fixed set.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Unmapped(_) | Self::Subject(_) => "unmapped",
            Self::SubjectTooLong(_) => "subject_too_long",
            Self::HeadersTooLong(_) => "headers_too_long",
            Self::Value { .. } => "value",
            Self::Protobuf(_) => "protobuf",
        }
    }
}
