//! CONNECT (§3.1): the first packet of a connection; it says which version the rest is in.

use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

use bytes::Bytes;
use bytestring::ByteString;

use super::{QoS, Will};
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, UserProperties};

/// The connect flags (§3.1.2.3); will QoS is bits 3 and 4.
const CLEAN_START: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
const WILL_RETAIN: u8 = 1 << 5;
const PASSWORD: u8 = 1 << 6;
const USER_NAME: u8 = 1 << 7;

/// A version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// MQTT 3.1.1, protocol level 4; and MQTT 3.1, which is served alike.
    V3_1_1,
    /// MQTT 5.0, protocol level 5.
    V5,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Version {
    /// `3.1.1` or `5.0`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3_1_1 => "3.1.1",
            Self::V5 => "5.0",
        }
    }

    /// The version's protocol level.
    fn level(self) -> u8 {
        match self {
            Self::V3_1_1 => 4,
            Self::V5 => 5,
        }
    }
}

/// CONNECT. Its `Debug` form leaves out the password and the authentication data.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect {
    /// Which version the client speaks.
    pub version: Version,
    /// Start without the state of an earlier connection; called Clean Session in 3.1.1.
    pub clean_start: bool,
    /// The longest time between two packets of the client, in seconds; 0: no limit.
    pub keep_alive: u16,
    /// The client identifier; may be empty, also in 3.1.1 without a clean session (the session refuses that).
    pub client_id: ByteString,
    /// The user name.
    pub username: Option<ByteString>,
    /// The password: any bytes. Never without a user name in 3.1.1.
    pub password: Option<Bytes>,
    /// What to publish when the connection ends abnormally.
    pub will: Option<Will>,
    /// Only MQTT 5.
    pub properties: ConnectProperties,
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("clean_start", &self.clean_start)
            .field("keep_alive", &self.keep_alive)
            .field("client_id", &self.client_id)
            .field("username", &self.username)
            .field("will", &self.will)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

impl Connect {
    /// Reads the protocol name and gives the protocol level, so that the codec knows in which form to refuse the rest.
    ///
    /// MQTT 3.1 names itself differently and is otherwise read as 3.1.1, whose level it gives.
    pub(in crate::mqtt) fn read_level(packet: &mut Reader) -> Result<u8, Error> {
        let name = packet.binary("protocol name")?;
        // [MQTT-3.1.2-1]
        let (is_oldest, expected) = match &*name {
            b"MQTT" => return packet.u8("protocol version"),
            b"MQIsdp" => (packet.u8("protocol version")? == 3, "3 (3.1) with MQIsdp"),
            _ => (false, "MQTT"),
        };
        match is_oldest {
            true => Ok(Version::V3_1_1.level()),
            false => Err(Error {
                reason: ReasonCode::UnsupportedProtocolVersion,
                ..packet.malformed("protocol name", expected)
            }),
        }
    }

    /// Reads what follows the protocol level.
    pub(in crate::mqtt) fn read(level: u8, mut packet: Reader) -> Result<Self, Error> {
        let version = match level {
            4 => Version::V3_1_1,
            5 => Version::V5,
            // [MQTT-3.1.2-2]
            _ => {
                return Err(Error {
                    reason: ReasonCode::UnsupportedProtocolVersion,
                    ..packet.malformed("protocol version", "4 (3.1.1) or 5 (5.0)")
                });
            }
        };
        let flags = packet.u8("connect flags")?;
        let will_qos = check_flags(flags, &packet)?;
        let keep_alive = packet.u16("keep alive")?;
        let properties = match version {
            Version::V3_1_1 => ConnectProperties::default(),
            Version::V5 => ConnectProperties::read(&mut packet)?,
        };
        let client_id = packet.string("client identifier")?;
        let will = match flags & WILL {
            0 => None,
            // [MQTT-3.1.2-9]
            _ => {
                let retain = flags & WILL_RETAIN != 0;
                Some(Will::read(will_qos, retain, version, &mut packet)?)
            }
        };
        // [MQTT-3.1.2-16], [MQTT-3.1.2-17]
        let username = match flags & USER_NAME {
            0 => None,
            _ => Some(packet.string("user name")?),
        };
        // [MQTT-3.1.2-18], [MQTT-3.1.2-19]
        let password = match flags & PASSWORD {
            0 => None,
            _ => Some(packet.binary("password")?),
        };
        packet.end()?; // [MQTT-3.1.4-1]
        Ok(Self {
            version,
            clean_start: flags & CLEAN_START != 0,
            keep_alive,
            client_id,
            username,
            password,
            will,
            properties,
        })
    }

    fn flags(&self) -> u8 {
        let set = |flag, is_set: bool| if is_set { flag } else { 0 };
        let will = self.will.as_ref().map_or(0, |will| {
            WILL | (will.qos as u8) << 3 | set(WILL_RETAIN, will.retain)
        });
        set(CLEAN_START, self.clean_start)
            | will
            | set(PASSWORD, self.password.is_some())
            | set(USER_NAME, self.username.is_some())
    }

    pub(in crate::mqtt) fn write(&self, w: &mut Writer<'_>) {
        w.string("protocol name", "MQTT");
        w.u8(self.version.level());
        w.u8(self.flags());
        w.u16(self.keep_alive);
        if self.version == Version::V5 {
            w.section(|w| self.properties.write(w));
        }
        w.string("client identifier", &self.client_id);
        if let Some(will) = &self.will {
            will.write(self.version, w);
        }
        if let Some(username) = &self.username {
            w.string("user name", username);
        }
        if let Some(password) = &self.password {
            w.binary("password", password);
        }
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        let fault = |field, expected| Err(Error::protocol("CONNECT", field, expected));
        // 3.1.1 alone: [MQTT-3.1.2-22]
        let password_alone = self.password.is_some() && self.username.is_none();
        if self.version == Version::V3_1_1 && password_alone {
            return fault("user name", "one with a password");
        }
        let properties = &self.properties;
        if properties.authentication_data.is_some() && properties.authentication_method.is_none() {
            return fault("authentication method", "one with authentication data");
        }
        self.will.as_ref().map_or(Ok(()), Will::check)
    }
}

/// Checks the connect flags against each other, and gives the will QoS.
fn check_flags(flags: u8, packet: &Reader) -> Result<QoS, Error> {
    // [MQTT-3.1.2-3]
    if flags & 1 != 0 {
        return Err(packet.malformed("reserved connect flag", "0"));
    }
    let will_qos = packet.qos(flags >> 3 & 3, "will QoS")?; // [MQTT-3.1.2-12]
    if flags & WILL == 0 {
        // [MQTT-3.1.2-11]
        if will_qos != QoS::AtMostOnce {
            return Err(packet.malformed("will QoS", "0 without a will"));
        }
        // [MQTT-3.1.2-13]
        if flags & WILL_RETAIN != 0 {
            return Err(packet.malformed("will retain", "0 without a will"));
        }
    }
    Ok(will_qos)
}

/// The properties of CONNECT (§3.1.2.11). Their `Debug` form leaves out the authentication data.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectProperties {
    /// How long the session outlives the connection, in seconds; `u32::MAX`: for ever. Absent: 0.
    pub session_expiry_interval: Option<u32>,
    /// How many QoS 1 and 2 publications the client takes at a time. Absent: 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// The largest packet that the client takes, in bytes with fixed header. Absent: no limit.
    pub maximum_packet_size: Option<NonZeroU32>,
    /// The highest topic alias that the client takes. Absent: 0, none.
    pub topic_alias_maximum: Option<u16>,
    /// Whether the client wants Response Information. Absent: false.
    pub request_response_information: Option<bool>,
    /// Whether the client wants reason strings and user properties. Absent: true.
    pub request_problem_information: Option<bool>,
    /// The name of the extended authentication method.
    pub authentication_method: Option<ByteString>,
    /// Data of that method: any bytes.
    pub authentication_data: Option<Bytes>,
    /// User properties.
    pub user: UserProperties,
}

impl fmt::Debug for ConnectProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectProperties")
            .field("session_expiry_interval", &self.session_expiry_interval)
            .field("receive_maximum", &self.receive_maximum)
            .field("maximum_packet_size", &self.maximum_packet_size)
            .field("topic_alias_maximum", &self.topic_alias_maximum)
            .field("authentication_method", &self.authentication_method)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl ConnectProperties {
    fn read(packet: &mut Reader) -> Result<Self, Error> {
        let mut value = Properties::read(packet)?;
        let mut this = Self::default();
        while let Some(property) = value.next()? {
            match property {
                Property::SessionExpiryInterval => {
                    this.session_expiry_interval = Some(value.u32()?);
                }
                Property::ReceiveMaximum => this.receive_maximum = Some(value.non_zero_u16()?),
                Property::MaximumPacketSize => {
                    this.maximum_packet_size = Some(value.non_zero_u32()?);
                }
                Property::TopicAliasMaximum => this.topic_alias_maximum = Some(value.u16()?),
                Property::RequestResponseInformation => {
                    this.request_response_information = Some(value.flag()?);
                }
                Property::RequestProblemInformation => {
                    this.request_problem_information = Some(value.flag()?);
                }
                Property::AuthenticationMethod => {
                    this.authentication_method = Some(value.string()?);
                }
                Property::AuthenticationData => this.authentication_data = Some(value.binary()?),
                _ => return Err(value.not_allowed()),
            }
        }
        this.user = value.into_user();
        Ok(this)
    }

    fn write(&self, w: &mut Writer<'_>) {
        let receive_maximum = self.receive_maximum.map(NonZeroU16::get);
        let maximum_packet_size = self.maximum_packet_size.map(NonZeroU32::get);
        let response = self.request_response_information;
        let problem = self.request_problem_information;
        let method = self.authentication_method.as_ref();
        let data = self.authentication_data.as_ref();
        w.property_u32(
            Property::SessionExpiryInterval,
            self.session_expiry_interval,
        );
        w.property_u16(Property::ReceiveMaximum, receive_maximum);
        w.property_u32(Property::MaximumPacketSize, maximum_packet_size);
        w.property_u16(Property::TopicAliasMaximum, self.topic_alias_maximum);
        w.property_flag(Property::RequestResponseInformation, response);
        w.property_flag(Property::RequestProblemInformation, problem);
        w.property_string(Property::AuthenticationMethod, method);
        w.property_binary(Property::AuthenticationData, data);
        w.user_properties(&self.user);
    }
}
