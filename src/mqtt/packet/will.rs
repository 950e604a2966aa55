//! The Will of a CONNECT (§3.1.2.5, §3.1.3.2): the message to publish when the connection ends abnormally.

use bytes::Bytes;

use super::{PublishProperties, QoS, Version};
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, TopicName};

/// The Will of a CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Will {
    /// Where it is published.
    pub topic: TopicName,
    /// What is published: any bytes.
    pub payload: Bytes,
    /// With which QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// How long to wait after the end of the connection, in seconds; 0 in 3.1.1.
    pub delay_interval: u32,
    /// Only MQTT 5; topic alias and subscription identifiers are never present in a Will.
    pub properties: PublishProperties,
}

impl Will {
    /// Reads the Will's part of the payload; `qos` and `retain` come from the connect flags.
    pub(super) fn read(
        qos: QoS,
        retain: bool,
        version: Version,
        packet: &mut Reader,
    ) -> Result<Self, Error> {
        let (delay_interval, properties) = match version {
            Version::V3_1_1 => (0, PublishProperties::default()),
            Version::V5 => read_properties(packet)?,
        };
        let topic = packet.string("will topic")?;
        let topic = TopicName::try_from(topic).map_err(|error| Error {
            packet: "CONNECT",
            field: "will topic",
            ..error
        })?;
        Ok(Self {
            topic,
            payload: packet.binary("will payload")?,
            qos,
            retain,
            delay_interval,
            properties,
        })
    }

    pub(super) fn write(&self, version: Version, w: &mut Writer<'_>) {
        if version == Version::V5 {
            w.section(|w| {
                // Leaving out a delay of zero says the same.
                let delay = Some(self.delay_interval).filter(|delay| *delay > 0);
                w.property_u32(Property::WillDelayInterval, delay);
                self.properties.write(w);
            });
        }
        w.string("will topic", self.topic.as_str());
        w.binary("will payload", &self.payload);
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let properties = &self.properties;
        if properties.topic_alias.is_some() || !properties.subscription_identifiers.is_empty() {
            let expected = "neither topic alias nor subscription identifiers";
            return Err(Error::protocol("CONNECT", "will properties", expected));
        }
        properties.check("CONNECT")
    }
}

fn read_properties(packet: &mut Reader) -> Result<(u32, PublishProperties), Error> {
    let mut properties = Properties::read(packet)?;
    let mut delay_interval = 0;
    let mut publish = PublishProperties::default();
    while let Some(property) = properties.next()? {
        match property {
            Property::WillDelayInterval => delay_interval = properties.u32()?,
            _ => publish.read_one(property, &mut properties)?,
        }
    }
    publish.user = properties.into_user();
    Ok((delay_interval, publish))
}
