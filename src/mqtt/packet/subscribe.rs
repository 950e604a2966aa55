//! SUBSCRIBE (§3.8) and SUBACK (§3.9).

use std::num::NonZeroU32;

use bytestring::ByteString;

use super::{PacketId, QoS, Version};
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::{VARIABLE_MAX, Writer};
use crate::mqtt::{Error, ReasonCode, TopicFilter, UserProperties};

/// SUBSCRIBE: at least one filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// Which request; SUBACK repeats it.
    pub packet_id: PacketId,
    /// The identifier of all its subscriptions, at most 268,435,455; only MQTT 5.
    pub identifier: Option<NonZeroU32>,
    /// What is asked for, in order.
    pub filters: Vec<Subscription>,
    /// User properties.
    pub user: UserProperties,
}

impl Subscribe {
    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let mut this = Self {
            packet_id: packet.packet_id()?,
            identifier: None,
            filters: Vec::new(),
            user: UserProperties::default(),
        };
        if version == Version::V5 {
            let mut properties = Properties::read(&mut packet)?;
            while let Some(property) = properties.next()? {
                match property {
                    Property::SubscriptionIdentifier if this.identifier.is_some() => {
                        return Err(properties.repeated());
                    }
                    Property::SubscriptionIdentifier => {
                        this.identifier = Some(properties.subscription_identifier()?);
                    }
                    _ => return Err(properties.not_allowed()),
                }
            }
            this.user = properties.into_user();
        }
        while !packet.is_empty() {
            this.filters.push(Subscription::read(version, &mut packet)?);
        }
        Ok(this)
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u16(self.packet_id.get());
        if version == Version::V5 {
            w.section(|w| {
                if let Some(identifier) = self.identifier {
                    w.subscription_identifier(identifier);
                }
                w.user_properties(&self.user);
            });
        }
        for subscription in &self.filters {
            w.string("topic filter", subscription.filter.as_str());
            w.u8(subscription.options(version));
        }
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        let fault = |field, expected| Err(Error::protocol("SUBSCRIBE", field, expected));
        // [MQTT-3.8.3-2]
        if self.filters.is_empty() {
            return fault("payload", "at least one topic filter");
        }
        if self.identifier.is_some_and(|id| id.get() > VARIABLE_MAX) {
            return fault("subscription identifier", "at most 268,435,455");
        }
        for subscription in &self.filters {
            // [MQTT-3.8.3-4]
            if subscription.no_local && subscription.filter.is_shared() {
                return fault("no local", "0 for a shared subscription");
            }
            if subscription.retain_handling > 2 {
                return fault("retain handling", "0, 1 or 2");
            }
        }
        Ok(())
    }
}

/// One filter of a SUBSCRIBE with its options (§3.8.3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Which topics.
    pub filter: TopicFilter,
    /// The highest QoS to deliver with.
    pub qos: QoS,
    /// Not the client's own messages; false in 3.1.1 and for a shared subscription.
    pub no_local: bool,
    /// Deliver with the publisher's retain flag; false in 3.1.1.
    pub retain_as_published: bool,
    /// Retained messages on subscribe: 0 send, 1 send if the subscription is new, 2 do not send; 0 in 3.1.1.
    pub retain_handling: u8,
}

impl Subscription {
    fn read(version: Version, packet: &mut Reader) -> Result<Self, Error> {
        let filter = TopicFilter::read(packet)?; // [MQTT-3.8.3-1]
        let options = packet.u8("subscription options")?;
        let reserved = match version {
            Version::V3_1_1 => 0b1111_1100,
            Version::V5 => 0b1100_0000,
        };
        // [MQTT-3.8.3-5]
        if options & reserved != 0 {
            return Err(packet.malformed("subscription options", "reserved bits of 0"));
        }
        let qos = packet.qos(options & 3, "maximum QoS").map_err(|error| {
            let reason = ReasonCode::ProtocolError; // §3.8.3.1 says so for this field.
            Error { reason, ..error }
        })?;
        Ok(Self {
            filter,
            qos,
            no_local: options & 1 << 2 != 0,
            retain_as_published: options & 1 << 3 != 0,
            retain_handling: options >> 4,
        })
    }

    fn options(&self, version: Version) -> u8 {
        let qos = self.qos as u8;
        match version {
            Version::V3_1_1 => qos,
            Version::V5 => {
                qos | u8::from(self.no_local) << 2
                    | u8::from(self.retain_as_published) << 3
                    | self.retain_handling << 4
            }
        }
    }
}

/// SUBACK: one reason per filter of the SUBSCRIBE, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suback {
    /// Which SUBSCRIBE.
    pub packet_id: PacketId,
    /// The granted QoS or why not; in 3.1.1 each error is 0x80.
    pub reasons: Vec<ReasonCode>,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl Suback {
    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let packet_id = packet.packet_id()?;
        let (reason_string, user) = match version {
            Version::V3_1_1 => Default::default(),
            Version::V5 => Properties::read_reason_string(&mut packet)?,
        };
        let mut reasons = Vec::with_capacity(packet.rest().len());
        while !packet.is_empty() {
            let reason = packet.reason()?;
            let is_3_1_1 = !reason.is_error() || reason == ReasonCode::UnspecifiedError;
            if version == Version::V3_1_1 && !is_3_1_1 {
                return Err(packet.malformed("return code", "0, 1, 2 or 0x80"));
            }
            reasons.push(reason);
        }
        Ok(Self {
            packet_id,
            reasons,
            reason_string,
            user,
        })
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u16(self.packet_id.get());
        if version == Version::V5 {
            w.reason_string(self.reason_string.as_ref(), &self.user);
        }
        for reason in &self.reasons {
            match version {
                Version::V3_1_1 if reason.is_error() => w.u8(0x80),
                _ => w.u8(reason.value()),
            }
        }
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        if self.reasons.is_empty() {
            let expected = "at least one reason code";
            return Err(Error::protocol("SUBACK", "payload", expected));
        }
        // [MQTT-3.9.3-2]
        let mut reasons = self.reasons.iter();
        reasons.try_for_each(|reason| reason.check("SUBACK", Carrier::Suback))
    }
}
