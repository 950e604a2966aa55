//! UNSUBSCRIBE (§3.10) and UNSUBACK (§3.11).

use bytestring::ByteString;

use super::{PacketId, Version};
use crate::mqtt::property::Properties;
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, TopicFilter, UserProperties};

/// UNSUBSCRIBE: at least one filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsubscribe {
    /// Which request; UNSUBACK repeats it.
    pub packet_id: PacketId,
    /// Which subscriptions, in order.
    pub filters: Vec<TopicFilter>,
    /// User properties.
    pub user: UserProperties,
}

impl Unsubscribe {
    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let packet_id = packet.packet_id()?;
        let user = match version {
            Version::V3_1_1 => UserProperties::default(),
            Version::V5 => {
                let mut properties = Properties::read(&mut packet)?;
                if properties.next()?.is_some() {
                    return Err(properties.not_allowed());
                }
                properties.into_user()
            }
        };
        let mut filters = Vec::new();
        while !packet.is_empty() {
            filters.push(TopicFilter::read(&mut packet)?); // [MQTT-3.10.3-1]
        }
        Ok(Self {
            packet_id,
            filters,
            user,
        })
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u16(self.packet_id.get());
        if version == Version::V5 {
            w.section(|w| w.user_properties(&self.user));
        }
        for filter in &self.filters {
            w.string("topic filter", filter.as_str());
        }
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        // [MQTT-3.10.3-2]
        if self.filters.is_empty() {
            let expected = "at least one topic filter";
            return Err(Error::protocol("UNSUBSCRIBE", "payload", expected));
        }
        Ok(())
    }
}

/// UNSUBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsuback {
    /// Which UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// One reason per filter of the UNSUBSCRIBE, in its order; 3.1.1 has none: empty when decoded, left out when encoded.
    pub reasons: Vec<ReasonCode>,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl Unsuback {
    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let mut this = Self {
            packet_id: packet.packet_id()?,
            reasons: Vec::new(),
            reason_string: None,
            user: UserProperties::default(),
        };
        match version {
            Version::V3_1_1 => packet.end()?,
            Version::V5 => {
                (this.reason_string, this.user) = Properties::read_reason_string(&mut packet)?;
                while !packet.is_empty() {
                    this.reasons.push(packet.reason()?);
                }
            }
        }
        Ok(this)
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u16(self.packet_id.get());
        if version == Version::V5 {
            w.reason_string(self.reason_string.as_ref(), &self.user);
            for reason in &self.reasons {
                w.u8(reason.value());
            }
        }
    }

    pub(in crate::mqtt) fn check(&self, version: Version) -> Result<(), Error> {
        if version == Version::V5 && self.reasons.is_empty() {
            let expected = "at least one reason code";
            return Err(Error::protocol("UNSUBACK", "payload", expected));
        }
        // [MQTT-3.11.3-2]
        let mut reasons = self.reasons.iter();
        reasons.try_for_each(|reason| reason.check("UNSUBACK", Carrier::Unsuback))
    }
}
