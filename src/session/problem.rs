//! Problem Information (MQTT 5 §4.13): why something was refused, as a code and in words.

use crate::mqtt::ReasonCode;

/// Why the gateway refuses a message or a subscription, while the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// 0x80 or more.
    pub reason: ReasonCode,
    /// For a person who looks after the device. Fixed texts, so that nothing of the store or of others is in them.
    pub words: &'static str,
}
