//! FLOW: one PUBLISH from a device, start to end: acl → mapping → publisher. The PUBACK follows from the receipts.

mod flow;

pub use flow::{Sender, Uplink};

use crate::auth::acl;
use crate::jetstream::Refusal;
use crate::mapping;
use crate::mqtt::ReasonCode;

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not this device's topic.
    #[error("not authorized: {0}")]
    NotAuthorized(acl::Denied),
    /// No subject can be made of it.
    #[error("no subject for this message: {0}")]
    Unmapped(#[from] mapping::Error),
}

impl Error {
    /// The whole policy from failure to device.
    #[must_use]
    pub fn reason_code(&self) -> ReasonCode {
        match self {
            Self::NotAuthorized(_) => ReasonCode::NotAuthorized,
            Self::Unmapped(mapping::Error::HeadersTooLong(_)) => ReasonCode::QuotaExceeded,
            Self::Unmapped(_) => ReasonCode::TopicNameInvalid,
        }
    }
}

/// What the device is told when the stream refused its message.
#[must_use]
pub fn refusal_code(refusal: &Refusal) -> ReasonCode {
    match refusal {
        // A PUBACK may not say Packet too large; Quota exceeded covers a limit that was set [MQTT-3.4.2-1].
        Refusal::Full(_) | Refusal::TooLarge(_) => ReasonCode::QuotaExceeded,
        Refusal::Refused(_) => ReasonCode::ImplementationSpecificError,
        Refusal::Unanswered => ReasonCode::UnspecifiedError,
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::mqtt::{Ack, Codec, Packet, PacketId, Version};

    #[test]
    fn every_answer_is_one_that_puback_may_carry() {
        // [MQTT-3.4.2-1]
        let mut codec = Codec::new(100);
        codec.set_version(Version::V5);
        let reason = String::new;
        for reason in [
            refusal_code(&Refusal::Full(reason())),
            refusal_code(&Refusal::TooLarge(reason())),
            refusal_code(&Refusal::Refused(reason())),
            refusal_code(&Refusal::Unanswered),
            Error::NotAuthorized(acl::Denied::Unmapped).reason_code(),
            Error::Unmapped(mapping::Error::Unmapped(reason())).reason_code(),
            Error::Unmapped(mapping::Error::HeadersTooLong(0)).reason_code(),
        ] {
            assert!(reason.is_error());
            let puback = Packet::Puback(Ack::new(PacketId::new(1).unwrap(), reason));
            assert_eq!(codec.encode(&puback, &mut BytesMut::new()), Ok(()));
        }
    }
}
