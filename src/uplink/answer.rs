//! What a device is told when its message is not stored: a code that PUBACK may carry, and words.
//!
//! The words are fixed: what the server answered, and whom a topic belongs to, is for the log.

use super::Error;
use crate::jetstream::Refusal;
use crate::mapping;
use crate::mqtt::ReasonCode;
use crate::session::Problem;

impl Error {
    /// The whole policy from failure to device.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (reason, words) = match self {
            Self::NotAuthorized(denied) => (ReasonCode::NotAuthorized, denied.as_str()),
            Self::Limit(problem) => return *problem,
            Self::Unmapped(mapping::Error::HeadersTooLong(_)) => (
                ReasonCode::QuotaExceeded,
                "the properties have more bytes than can be stored",
            ),
            Self::Unmapped(_) => (
                ReasonCode::TopicNameInvalid,
                "nothing can be stored under this topic",
            ),
        };
        Problem { reason, words }
    }
}

/// What the device is told when the stream refused its message.
#[must_use]
pub fn not_stored(refusal: &Refusal) -> Problem {
    let (reason, words) = match refusal {
        Refusal::Full(_) => (ReasonCode::QuotaExceeded, "the store is full"),
        // A PUBACK may not say Packet too large; Quota exceeded covers a limit that was set [MQTT-3.4.2-1].
        Refusal::TooLarge(_) => (
            ReasonCode::QuotaExceeded,
            "the message is larger than the store takes",
        ),
        Refusal::Refused(_) => (
            ReasonCode::ImplementationSpecificError,
            "the store refused the message",
        ),
        // The device has another connection, and this one is about to hear of it.
        Refusal::Fenced | Refusal::Unanswered => (
            ReasonCode::UnspecifiedError,
            "the store did not answer, and may have the message or not",
        ),
    };
    Problem { reason, words }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::auth::acl;
    use crate::mqtt::{Ack, Codec, Packet, PacketId, Version};

    #[test]
    fn every_answer_is_one_that_puback_may_carry() {
        // [MQTT-3.4.2-1]
        let mut codec = Codec::new(100);
        codec.set_version(Version::V5);
        let reason = String::new;
        for problem in [
            not_stored(&Refusal::Full(reason())),
            not_stored(&Refusal::TooLarge(reason())),
            not_stored(&Refusal::Refused(reason())),
            not_stored(&Refusal::Unanswered),
            Error::NotAuthorized(acl::Denied::Unmapped).problem(),
            Error::Unmapped(mapping::Error::Unmapped(reason())).problem(),
            Error::Unmapped(mapping::Error::HeadersTooLong(0)).problem(),
        ] {
            assert!(problem.reason.is_error());
            let puback = Packet::Puback(Ack::new(PacketId::new(1).unwrap(), problem.reason));
            assert_eq!(codec.encode(&puback, &mut BytesMut::new()), Ok(()));
        }
    }
}
