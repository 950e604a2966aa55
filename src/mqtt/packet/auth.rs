//! AUTH (MQTT 5 §3.15): a step of extended authentication. 3.1.1 has no such packet.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use super::Version;
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, UserProperties};

/// AUTH. Its `Debug` form leaves out the authentication data.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// Success, continue or authenticate again.
    pub reason: ReasonCode,
    /// The name of the authentication method; absent only with success and nothing else.
    pub authentication_method: Option<ByteString>,
    /// Data of that method: any bytes.
    pub authentication_data: Option<Bytes>,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("reason", &self.reason)
            .field("authentication_method", &self.authentication_method)
            .field("reason_string", &self.reason_string)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Auth {
    pub(in crate::mqtt) fn read(mut packet: Reader) -> Result<Self, Error> {
        let mut this = Self {
            reason: ReasonCode::Success,
            authentication_method: None,
            authentication_data: None,
            reason_string: None,
            user: UserProperties::default(),
        };
        if packet.is_empty() {
            return Ok(this);
        }
        this.reason = packet.reason()?;
        let mut value = Properties::read(&mut packet)?;
        while let Some(property) = value.next()? {
            match property {
                Property::AuthenticationMethod => {
                    this.authentication_method = Some(value.string()?);
                }
                Property::AuthenticationData => this.authentication_data = Some(value.binary()?),
                Property::ReasonString => this.reason_string = Some(value.string()?),
                _ => return Err(value.not_allowed()),
            }
        }
        this.user = value.into_user();
        packet.end()?;
        Ok(this)
    }

    /// Success and nothing else, which has no content at all (§3.15.2.1).
    fn is_bare(&self) -> bool {
        self.reason == ReasonCode::Success
            && self.authentication_method.is_none()
            && self.authentication_data.is_none()
            && self.reason_string.is_none()
            && self.user.is_empty()
    }

    pub(in crate::mqtt) fn write(&self, w: &mut Writer<'_>) {
        if self.is_bare() {
            return;
        }
        let method = self.authentication_method.as_ref();
        let data = self.authentication_data.as_ref();
        w.u8(self.reason.value());
        w.section(|w| {
            w.property_string(Property::AuthenticationMethod, method);
            w.property_binary(Property::AuthenticationData, data);
            w.property_string(Property::ReasonString, self.reason_string.as_ref());
            w.user_properties(&self.user);
        });
    }

    pub(in crate::mqtt) fn check(&self, version: Version) -> Result<(), Error> {
        if version == Version::V3_1_1 {
            return Err(Error::malformed("AUTH", "version", "MQTT 5"));
        }
        // [MQTT-3.15.2-1]
        self.reason.check("AUTH", Carrier::Auth)?;
        if self.authentication_method.is_none() && !self.is_bare() {
            let field = "authentication method";
            return Err(Error::protocol(
                "AUTH",
                field,
                "one, except with mere success",
            ));
        }
        Ok(())
    }
}
