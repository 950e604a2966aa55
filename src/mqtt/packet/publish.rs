//! PUBLISH (§3.3): one message with its QoS and properties.
//!
//! Decoding allocates nothing: topic, payload and properties are slices of the packet's buffer.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::Bytes;
use bytestring::ByteString;

use super::{PacketId, Version};
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::topic;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, UserProperties};

/// Quality of Service (§4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: delivered or lost.
    AtMostOnce = 0,
    /// QoS 1: delivered, possibly more than once.
    AtLeastOnce = 1,
    /// QoS 2: delivered once.
    ExactlyOnce = 2,
}

impl TryFrom<u8> for QoS {
    type Error = Error;

    fn try_from(value: u8) -> Result<Self, Error> {
        match value {
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce),
            2 => Ok(Self::ExactlyOnce),
            // [MQTT-3.3.1-4]
            _ => Err(Error::malformed("packet", "QoS", "0, 1 or 2")),
        }
    }
}

/// PUBLISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// Possibly sent before; false with QoS 0.
    pub dup: bool,
    /// Quality of Service.
    pub qos: QoS,
    /// To be retained, or was retained.
    pub retain: bool,
    /// A valid topic name, or empty in MQTT 5 with a topic alias.
    pub topic: ByteString,
    /// Present with QoS 1 and 2, absent with QoS 0.
    pub packet_id: Option<PacketId>,
    /// Only MQTT 5.
    pub properties: PublishProperties,
    /// The message: any bytes, possibly none.
    pub payload: Bytes,
}

impl Publish {
    pub(in crate::mqtt) fn read(
        flags: u8,
        version: Version,
        mut packet: Reader,
    ) -> Result<Self, Error> {
        let qos = packet.qos(flags >> 1 & 3, "QoS")?;
        let topic = packet.string("topic name")?; // [MQTT-3.3.2-1]
        let packet_id = match qos {
            QoS::AtMostOnce => None, // [MQTT-2.2.1-2]
            QoS::AtLeastOnce | QoS::ExactlyOnce => Some(packet.packet_id()?),
        };
        let properties = match version {
            Version::V3_1_1 => PublishProperties::default(),
            Version::V5 => PublishProperties::read(&mut packet)?,
        };
        Ok(Self {
            dup: flags & 8 != 0,
            qos,
            retain: flags & 1 != 0,
            topic,
            packet_id,
            properties,
            payload: packet.into_rest(),
        })
    }

    /// What it carries, in bytes: topic name, properties and payload.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.topic.len() + self.properties.content_bytes() + self.payload.len()
    }

    pub(in crate::mqtt) fn flags(&self) -> u8 {
        u8::from(self.dup) << 3 | (self.qos as u8) << 1 | u8::from(self.retain)
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.string("topic name", &self.topic);
        if let Some(id) = self.packet_id {
            w.u16(id.get());
        }
        if version == Version::V5 {
            w.section(|w| self.properties.write(w));
        }
        w.raw(&self.payload);
    }

    pub(in crate::mqtt) fn check(&self, version: Version) -> Result<(), Error> {
        let fault = |field, expected| Err(Error::protocol("PUBLISH", field, expected));
        // [MQTT-3.3.1-2]
        if self.dup && self.qos == QoS::AtMostOnce {
            return fault("DUP", "0 with QoS 0");
        }
        if self.packet_id.is_some() != (self.qos > QoS::AtMostOnce) {
            return fault("packet identifier", "one with QoS 1 and 2, none with QoS 0");
        }
        self.properties.check("PUBLISH")?;
        if version == Version::V5 && self.topic.is_empty() {
            return match self.properties.topic_alias {
                Some(_) => Ok(()),
                None => fault("topic name", "a topic name or a topic alias"),
            };
        }
        // [MQTT-3.3.2-2]
        topic::check_name(&self.topic)
            .map_err(|expected| Error::malformed("PUBLISH", "topic name", expected))
    }
}

/// The properties of PUBLISH (§3.3.2.3) and of a Will.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishProperties {
    /// 0: any bytes; 1: the payload is UTF-8 (not checked here). No other value.
    pub payload_format_indicator: Option<u8>,
    /// How long the message is worth delivering, in seconds.
    pub message_expiry_interval: Option<u32>,
    /// A number that stands for the topic name.
    pub topic_alias: Option<NonZeroU16>,
    /// Where to send an answer: a topic name.
    pub response_topic: Option<ByteString>,
    /// What tells the asker which question an answer belongs to: any bytes.
    pub correlation_data: Option<Bytes>,
    /// The identifiers of the subscriptions that matched; a server's PUBLISH only.
    pub subscription_identifiers: Vec<NonZeroU32>,
    /// What the payload is.
    pub content_type: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl PublishProperties {
    /// What they carry, in bytes: all texts and binary data.
    fn content_bytes(&self) -> usize {
        let text = |text: &Option<ByteString>| text.as_ref().map_or(0, |text| text.len());
        let correlation_data = self.correlation_data.as_ref().map_or(0, Bytes::len);
        let texts = text(&self.response_topic) + text(&self.content_type);
        texts + correlation_data + self.user.content_bytes()
    }

    fn read(packet: &mut Reader) -> Result<Self, Error> {
        let mut properties = Properties::read(packet)?;
        let mut this = Self::default();
        while let Some(property) = properties.next()? {
            match property {
                Property::TopicAlias => this.topic_alias = Some(properties.topic_alias()?),
                Property::SubscriptionIdentifier => {
                    let identifier = properties.subscription_identifier()?;
                    this.subscription_identifiers.push(identifier);
                }
                _ => this.read_one(property, &mut properties)?,
            }
        }
        this.user = properties.into_user();
        Ok(this)
    }

    /// Reads a property that a Will may have too.
    pub(super) fn read_one(
        &mut self,
        property: Property,
        value: &mut Properties,
    ) -> Result<(), Error> {
        match property {
            Property::PayloadFormatIndicator => {
                self.payload_format_indicator = Some(value.zero_or_one()?);
            }
            Property::MessageExpiryInterval => self.message_expiry_interval = Some(value.u32()?),
            Property::ResponseTopic => self.response_topic = Some(value.string()?), // [MQTT-3.3.2-13]
            Property::CorrelationData => self.correlation_data = Some(value.binary()?),
            Property::ContentType => self.content_type = Some(value.string()?), // [MQTT-3.3.2-19]
            _ => return Err(value.not_allowed()),
        }
        Ok(())
    }

    /// Writes the content of the section.
    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.property_u8(
            Property::PayloadFormatIndicator,
            self.payload_format_indicator,
        );
        w.property_string(Property::ContentType, self.content_type.as_ref());
        w.property_string(Property::ResponseTopic, self.response_topic.as_ref());
        w.property_binary(Property::CorrelationData, self.correlation_data.as_ref());
        w.user_properties(&self.user);
        // Behind what the publisher sent, what is made anew for each receiver: public tests compare this order.
        w.property_u16(Property::TopicAlias, self.topic_alias.map(NonZeroU16::get));
        for identifier in &self.subscription_identifiers {
            w.subscription_identifier(*identifier);
        }
        w.property_u32(
            Property::MessageExpiryInterval,
            self.message_expiry_interval,
        );
    }

    pub(super) fn check(&self, packet: &'static str) -> Result<(), Error> {
        if self.payload_format_indicator > Some(1) {
            let field = "payload format indicator";
            return Err(Error::protocol(packet, field, "0 or 1"));
        }
        // [MQTT-3.3.2-14]
        match self.response_topic.as_deref().map(topic::check_name) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(expected)) => Err(Error::malformed(packet, "response topic", expected)),
        }
    }
}
