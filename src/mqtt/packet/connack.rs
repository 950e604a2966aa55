//! CONNACK (§3.2): the answer to CONNECT.

use std::num::{NonZeroU16, NonZeroU32};

use bytes::Bytes;
use bytestring::ByteString;

use super::{QoS, Version};
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, UserProperties};

/// CONNACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connack {
    /// Whether the server continues an earlier session; false with an error.
    pub session_present: bool,
    /// Accepted, or why not; in 3.1.1 written as [`ReasonCode::connect_return_code`].
    pub reason: ReasonCode,
    /// Only MQTT 5.
    pub properties: ConnackProperties,
}

impl Connack {
    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let flags = packet.u8("acknowledge flags")?;
        // [MQTT-3.2.2-1]
        if flags > 1 {
            return Err(packet.malformed("acknowledge flags", "0 or 1"));
        }
        let (reason, properties) = match version {
            Version::V3_1_1 => {
                let code = packet.u8("return code")?;
                let reason = ReasonCode::from_connect_return_code(code)
                    .ok_or_else(|| packet.malformed("return code", "0 to 5"))?;
                (reason, ConnackProperties::default())
            }
            Version::V5 => (packet.reason()?, ConnackProperties::read(&mut packet)?),
        };
        packet.end()?;
        Ok(Self {
            session_present: flags == 1,
            reason,
            properties,
        })
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        w.u8(u8::from(self.session_present));
        match version {
            Version::V3_1_1 => w.u8(self.reason.connect_return_code()),
            Version::V5 => {
                w.u8(self.reason.value());
                w.section(|w| self.properties.write(w));
            }
        }
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        // [MQTT-3.2.2-8]
        self.reason.check("CONNACK", Carrier::Connack)?;
        // [MQTT-3.2.2-6]
        if self.session_present && self.reason != ReasonCode::Success {
            let expected = "0 with an error";
            return Err(Error::protocol("CONNACK", "session present", expected));
        }
        if self.properties.maximum_qos == Some(QoS::ExactlyOnce) {
            let expected = "0 or 1; absent for 2";
            return Err(Error::protocol("CONNACK", "maximum QoS", expected));
        }
        Ok(())
    }
}

/// The properties of CONNACK (§3.2.2.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnackProperties {
    /// How long the session outlives the connection, in seconds. Absent: as the client asked.
    pub session_expiry_interval: Option<u32>,
    /// How many QoS 1 and 2 publications the server takes at a time. Absent: 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// The highest QoS that the server takes: 0 or 1. Absent: 2.
    pub maximum_qos: Option<QoS>,
    /// Whether the server retains messages. Absent: true.
    pub retain_available: Option<bool>,
    /// The largest packet that the server takes, in bytes with fixed header. Absent: no limit.
    pub maximum_packet_size: Option<NonZeroU32>,
    /// The client identifier that the server made up for an empty one.
    pub assigned_client_identifier: Option<ByteString>,
    /// The highest topic alias that the server takes. Absent: 0, none.
    pub topic_alias_maximum: Option<u16>,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
    /// Whether filters may hold wildcards. Absent: true.
    pub wildcard_subscription_available: Option<bool>,
    /// Whether subscriptions may have identifiers. Absent: true.
    pub subscription_identifiers_available: Option<bool>,
    /// Whether subscriptions may be shared. Absent: true.
    pub shared_subscription_available: Option<bool>,
    /// The keep alive that the client must use instead of its own, in seconds.
    pub server_keep_alive: Option<u16>,
    /// What response topics may be built from.
    pub response_information: Option<ByteString>,
    /// Another server to use.
    pub server_reference: Option<ByteString>,
    /// The name of the extended authentication method.
    pub authentication_method: Option<ByteString>,
    /// Data of that method: any bytes.
    pub authentication_data: Option<Bytes>,
}

impl ConnackProperties {
    fn read(packet: &mut Reader) -> Result<Self, Error> {
        use Property as P;
        let mut value = Properties::read(packet)?;
        let mut this = Self::default();
        while let Some(property) = value.next()? {
            match property {
                P::SessionExpiryInterval => this.session_expiry_interval = Some(value.u32()?),
                P::ReceiveMaximum => this.receive_maximum = Some(value.non_zero_u16()?),
                P::MaximumQoS => this.maximum_qos = Some(value.maximum_qos()?),
                P::RetainAvailable => this.retain_available = Some(value.flag()?),
                P::MaximumPacketSize => this.maximum_packet_size = Some(value.non_zero_u32()?),
                P::AssignedClientIdentifier => {
                    this.assigned_client_identifier = Some(value.string()?);
                }
                P::TopicAliasMaximum => this.topic_alias_maximum = Some(value.u16()?),
                P::ReasonString => this.reason_string = Some(value.string()?),
                P::WildcardSubscriptionAvailable => {
                    this.wildcard_subscription_available = Some(value.flag()?);
                }
                P::SubscriptionIdentifierAvailable => {
                    this.subscription_identifiers_available = Some(value.flag()?);
                }
                P::SharedSubscriptionAvailable => {
                    this.shared_subscription_available = Some(value.flag()?);
                }
                P::ServerKeepAlive => this.server_keep_alive = Some(value.u16()?),
                P::ResponseInformation => this.response_information = Some(value.string()?),
                P::ServerReference => this.server_reference = Some(value.string()?),
                P::AuthenticationMethod => this.authentication_method = Some(value.string()?),
                P::AuthenticationData => this.authentication_data = Some(value.binary()?),
                _ => return Err(value.not_allowed()),
            }
        }
        this.user = value.into_user();
        Ok(this)
    }

    fn write(&self, w: &mut Writer<'_>) {
        use Property as P;
        let receive_maximum = self.receive_maximum.map(NonZeroU16::get);
        let maximum_qos = self.maximum_qos.map(|qos| qos as u8);
        let maximum_packet_size = self.maximum_packet_size.map(NonZeroU32::get);
        let client_id = self.assigned_client_identifier.as_ref();
        let wildcard = self.wildcard_subscription_available;
        let identifiers = self.subscription_identifiers_available;
        let shared = self.shared_subscription_available;
        w.property_u32(P::SessionExpiryInterval, self.session_expiry_interval);
        w.property_u16(P::ReceiveMaximum, receive_maximum);
        w.property_u8(P::MaximumQoS, maximum_qos);
        w.property_flag(P::RetainAvailable, self.retain_available);
        w.property_u32(P::MaximumPacketSize, maximum_packet_size);
        w.property_string(P::AssignedClientIdentifier, client_id);
        w.property_u16(P::TopicAliasMaximum, self.topic_alias_maximum);
        w.property_string(P::ReasonString, self.reason_string.as_ref());
        w.property_flag(P::WildcardSubscriptionAvailable, wildcard);
        w.property_flag(P::SubscriptionIdentifierAvailable, identifiers);
        w.property_flag(P::SharedSubscriptionAvailable, shared);
        w.property_u16(P::ServerKeepAlive, self.server_keep_alive);
        w.property_string(P::ResponseInformation, self.response_information.as_ref());
        w.property_string(P::ServerReference, self.server_reference.as_ref());
        w.property_string(P::AuthenticationMethod, self.authentication_method.as_ref());
        w.property_binary(P::AuthenticationData, self.authentication_data.as_ref());
        w.user_properties(&self.user);
    }
}
