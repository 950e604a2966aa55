//! PUBACK, PUBREC, PUBREL and PUBCOMP (§3.4 to §3.7): four packets of one shape.

use bytestring::ByteString;

use super::{PacketId, Version};
use crate::mqtt::property::Properties;
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, UserProperties};

/// The content of PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Which publication.
    pub packet_id: PacketId,
    /// What became of it; 3.1.1 can only say success.
    pub reason: ReasonCode,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl Ack {
    /// Without properties.
    #[must_use]
    pub fn new(packet_id: PacketId, reason: ReasonCode) -> Self {
        Self {
            packet_id,
            reason,
            reason_string: None,
            user: UserProperties::default(),
        }
    }

    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let mut this = Self::new(packet.packet_id()?, ReasonCode::Success);
        // MQTT 5 leaves out a reason of success, and an empty property section behind any reason (§3.4.2.1).
        if version == Version::V5 && !packet.is_empty() {
            this.reason = packet.reason()?;
            if !packet.is_empty() {
                (this.reason_string, this.user) = Properties::read_reason_string(&mut packet)?;
            }
        }
        packet.end()?;
        Ok(this)
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u16(self.packet_id.get());
        let has_properties = self.reason_string.is_some() || !self.user.is_empty();
        if version == Version::V3_1_1 || self.reason == ReasonCode::Success && !has_properties {
            return;
        }
        w.u8(self.reason.value());
        if has_properties {
            w.reason_string(self.reason_string.as_ref(), &self.user);
        }
    }

    /// Checks a PUBACK or PUBREC. // [MQTT-3.4.2-1], [MQTT-3.5.2-1]
    ///
    /// 3.1.1 cannot say that something failed: without its reason, the packet would say the opposite.
    pub(in crate::mqtt) fn check_received(
        &self,
        packet: &'static str,
        version: Version,
    ) -> Result<(), Error> {
        self.reason.check(packet, Carrier::Received)?;
        if version == Version::V3_1_1 && self.reason.is_error() {
            let expected = "success, as 3.1.1 has no other";
            return Err(Error::protocol(packet, "reason code", expected));
        }
        Ok(())
    }

    /// Checks a PUBREL or PUBCOMP. // [MQTT-3.6.2-1], [MQTT-3.7.2-1]
    pub(in crate::mqtt) fn check_released(&self, packet: &'static str) -> Result<(), Error> {
        self.reason.check(packet, Carrier::Released)
    }
}
