//! Properties of MQTT 5 (§2.2.2): the identifiers, and reading and writing a property section.
//!
//! Which properties a packet may have is a `match` in that packet's file; repeated ones and values out of range
//! are refused here. User properties are allowed in every section, so that packets never see them one by one.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::Bytes;
use bytestring::ByteString;

use super::reader::Reader;
use super::writer::Writer;
use super::{Error, QoS, ReasonCode, UserProperties};

/// A property of Table 2-4; its value is its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Property {
    PayloadFormatIndicator = 0x01,
    MessageExpiryInterval = 0x02,
    ContentType = 0x03,
    ResponseTopic = 0x08,
    CorrelationData = 0x09,
    SubscriptionIdentifier = 0x0B,
    SessionExpiryInterval = 0x11,
    AssignedClientIdentifier = 0x12,
    ServerKeepAlive = 0x13,
    AuthenticationMethod = 0x15,
    AuthenticationData = 0x16,
    RequestProblemInformation = 0x17,
    WillDelayInterval = 0x18,
    RequestResponseInformation = 0x19,
    ResponseInformation = 0x1A,
    ServerReference = 0x1C,
    ReasonString = 0x1F,
    ReceiveMaximum = 0x21,
    TopicAliasMaximum = 0x22,
    TopicAlias = 0x23,
    MaximumQoS = 0x24,
    RetainAvailable = 0x25,
    User = 0x26,
    MaximumPacketSize = 0x27,
    WildcardSubscriptionAvailable = 0x28,
    SubscriptionIdentifierAvailable = 0x29,
    SharedSubscriptionAvailable = 0x2A,
}

impl Property {
    /// An identifier is a Variable Byte Integer, but none that exists needs a second byte.
    pub(super) fn from_id(id: u8) -> Option<Self> {
        let property = match id {
            0x01 => Self::PayloadFormatIndicator,
            0x02 => Self::MessageExpiryInterval,
            0x03 => Self::ContentType,
            0x08 => Self::ResponseTopic,
            0x09 => Self::CorrelationData,
            0x0B => Self::SubscriptionIdentifier,
            0x11 => Self::SessionExpiryInterval,
            0x12 => Self::AssignedClientIdentifier,
            0x13 => Self::ServerKeepAlive,
            0x15 => Self::AuthenticationMethod,
            0x16 => Self::AuthenticationData,
            0x17 => Self::RequestProblemInformation,
            0x18 => Self::WillDelayInterval,
            0x19 => Self::RequestResponseInformation,
            0x1A => Self::ResponseInformation,
            0x1C => Self::ServerReference,
            0x1F => Self::ReasonString,
            0x21 => Self::ReceiveMaximum,
            0x22 => Self::TopicAliasMaximum,
            0x23 => Self::TopicAlias,
            0x24 => Self::MaximumQoS,
            0x25 => Self::RetainAvailable,
            0x26 => Self::User,
            0x27 => Self::MaximumPacketSize,
            0x28 => Self::WildcardSubscriptionAvailable,
            0x29 => Self::SubscriptionIdentifierAvailable,
            0x2A => Self::SharedSubscriptionAvailable,
            _ => return None,
        };
        Some(property)
    }

    /// The specification's name, for errors.
    fn name(self) -> &'static str {
        match self {
            Self::PayloadFormatIndicator => "payload format indicator",
            Self::MessageExpiryInterval => "message expiry interval",
            Self::ContentType => "content type",
            Self::ResponseTopic => "response topic",
            Self::CorrelationData => "correlation data",
            Self::SubscriptionIdentifier => "subscription identifier",
            Self::SessionExpiryInterval => "session expiry interval",
            Self::AssignedClientIdentifier => "assigned client identifier",
            Self::ServerKeepAlive => "server keep alive",
            Self::AuthenticationMethod => "authentication method",
            Self::AuthenticationData => "authentication data",
            Self::RequestProblemInformation => "request problem information",
            Self::WillDelayInterval => "will delay interval",
            Self::RequestResponseInformation => "request response information",
            Self::ResponseInformation => "response information",
            Self::ServerReference => "server reference",
            Self::ReasonString => "reason string",
            Self::ReceiveMaximum => "receive maximum",
            Self::TopicAliasMaximum => "topic alias maximum",
            Self::TopicAlias => "topic alias",
            Self::MaximumQoS => "maximum QoS",
            Self::RetainAvailable => "retain available",
            Self::User => "user property",
            Self::MaximumPacketSize => "maximum packet size",
            Self::WildcardSubscriptionAvailable => "wildcard subscription available",
            Self::SubscriptionIdentifierAvailable => "subscription identifier available",
            Self::SharedSubscriptionAvailable => "shared subscription available",
        }
    }
}

/// A property section that is being read: `next` says which property, one of the others reads its value.
pub(super) struct Properties {
    reader: Reader,
    /// The name of the property that `next` gave.
    field: &'static str,
    /// One bit per identifier seen.
    seen: u64,
    /// The section from its first user property on.
    user: Bytes,
}

impl Properties {
    /// Takes the section off the packet.
    pub(super) fn read(packet: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            reader: packet.section()?,
            field: "property identifier",
            seen: 0,
            user: Bytes::new(),
        })
    }

    /// The next property that is not a user property; its value must be read before the next call.
    pub(super) fn next(&mut self) -> Result<Option<Property>, Error> {
        while !self.reader.is_empty() {
            let from_here = self.reader.rest();
            if self.user.is_empty() && from_here.first() == Some(&(Property::User as u8)) {
                self.user = from_here.clone();
            }
            let id = self.reader.u8("property identifier")?;
            let property = Property::from_id(id).ok_or_else(|| {
                let expected = "one that MQTT 5 defines";
                self.reader.malformed("property identifier", expected)
            })?;
            self.field = property.name();
            match property {
                Property::User => self.user_property()?,
                // PUBLISH may have several; SUBSCRIBE checks for itself.
                Property::SubscriptionIdentifier => return Ok(Some(property)),
                _ => {
                    let bit = 1 << id;
                    if self.seen & bit != 0 {
                        return Err(self.repeated());
                    }
                    self.seen |= bit;
                    return Ok(Some(property));
                }
            }
        }
        Ok(None)
    }

    /// The section's user properties, once `next` has reached its end.
    pub(super) fn into_user(self) -> UserProperties {
        UserProperties::from_section(self.user)
    }

    /// Checks a pair, so that it can be read later without errors. // [MQTT-1.5.7-1]
    fn user_property(&mut self) -> Result<(), Error> {
        self.reader.string("user property name")?;
        self.reader.string("user property value")?;
        Ok(())
    }

    /// The whole section of a packet that may have a reason string and nothing else.
    pub(super) fn read_reason_string(
        packet: &mut Reader,
    ) -> Result<(Option<ByteString>, UserProperties), Error> {
        let mut properties = Self::read(packet)?;
        let mut reason_string = None;
        while let Some(property) = properties.next()? {
            match property {
                Property::ReasonString => reason_string = Some(properties.string()?),
                _ => return Err(properties.not_allowed()),
            }
        }
        Ok((reason_string, properties.into_user()))
    }

    /// The error for a property that the packet may not have.
    pub(super) fn not_allowed(&self) -> Error {
        self.reader
            .malformed(self.field, "no such property in this packet")
    }

    /// The error for a property that is there twice.
    pub(super) fn repeated(&self) -> Error {
        self.protocol("it at most once")
    }

    fn protocol(&self, expected: &'static str) -> Error {
        self.reader.protocol(self.field, expected)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.reader.u16(self.field)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.reader.u32(self.field)
    }

    pub(super) fn string(&mut self) -> Result<ByteString, Error> {
        self.reader.string(self.field)
    }

    pub(super) fn binary(&mut self) -> Result<Bytes, Error> {
        self.reader.binary(self.field)
    }

    /// A byte that is 0 or 1.
    pub(super) fn zero_or_one(&mut self) -> Result<u8, Error> {
        let value = self.reader.u8(self.field)?;
        if value > 1 {
            return Err(self.protocol("0 or 1"));
        }
        Ok(value)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Error> {
        Ok(self.zero_or_one()? == 1)
    }

    /// Maximum QoS: 2 is said by leaving it out.
    pub(super) fn maximum_qos(&mut self) -> Result<QoS, Error> {
        let value = self.zero_or_one()?;
        self.reader.qos(value, self.field)
    }

    pub(super) fn non_zero_u16(&mut self) -> Result<NonZeroU16, Error> {
        let value = self.u16()?;
        NonZeroU16::new(value).ok_or_else(|| self.protocol("1 to 65,535"))
    }

    pub(super) fn non_zero_u32(&mut self) -> Result<NonZeroU32, Error> {
        let value = self.u32()?;
        NonZeroU32::new(value).ok_or_else(|| self.protocol("1 or more"))
    }

    /// The specification has a code of its own for a bad alias. // [MQTT-3.3.2-8]
    pub(super) fn topic_alias(&mut self) -> Result<NonZeroU16, Error> {
        self.non_zero_u16().map_err(|error| match error.reason {
            ReasonCode::ProtocolError => Error {
                reason: ReasonCode::TopicAliasInvalid,
                ..error
            },
            _ => error,
        })
    }

    pub(super) fn subscription_identifier(&mut self) -> Result<NonZeroU32, Error> {
        let value = self.reader.variable(self.field)?;
        NonZeroU32::new(value).ok_or_else(|| self.protocol("1 to 268,435,455"))
    }
}

/// Writing properties; those that are `None` take no bytes.
impl Writer<'_> {
    fn property(&mut self, property: Property) {
        self.u8(property as u8);
    }

    pub(super) fn property_u8(&mut self, property: Property, value: Option<u8>) {
        if let Some(value) = value {
            self.property(property);
            self.u8(value);
        }
    }

    pub(super) fn property_flag(&mut self, property: Property, value: Option<bool>) {
        self.property_u8(property, value.map(u8::from));
    }

    pub(super) fn property_u16(&mut self, property: Property, value: Option<u16>) {
        if let Some(value) = value {
            self.property(property);
            self.u16(value);
        }
    }

    pub(super) fn property_u32(&mut self, property: Property, value: Option<u32>) {
        if let Some(value) = value {
            self.property(property);
            self.u32(value);
        }
    }

    pub(super) fn property_string(&mut self, property: Property, value: Option<&ByteString>) {
        if let Some(value) = value {
            self.property(property);
            self.string(property.name(), value);
        }
    }

    pub(super) fn property_binary(&mut self, property: Property, value: Option<&Bytes>) {
        if let Some(value) = value {
            self.property(property);
            self.binary(property.name(), value);
        }
    }

    pub(super) fn subscription_identifier(&mut self, value: NonZeroU32) {
        self.property(Property::SubscriptionIdentifier);
        let value = usize::try_from(value.get()).unwrap_or(usize::MAX);
        self.variable(Property::SubscriptionIdentifier.name(), value);
    }

    /// The whole section of a packet that has a reason string and nothing else.
    pub(super) fn reason_string(&mut self, text: Option<&ByteString>, user: &UserProperties) {
        self.section(|w| {
            w.property_string(Property::ReasonString, text);
            w.user_properties(user);
        });
    }

    pub(super) fn user_properties(&mut self, user: &UserProperties) {
        for (name, value) in user.iter() {
            self.property(Property::User);
            self.string("user property name", name);
            self.string("user property value", value);
        }
    }
}
