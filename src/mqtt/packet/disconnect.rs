//! DISCONNECT (§3.14): the last packet of a connection. In 3.1.1 only a client sends it, without content.

use bytestring::ByteString;

use super::Version;
use crate::mqtt::property::{Properties, Property};
use crate::mqtt::reader::Reader;
use crate::mqtt::reason::Carrier;
use crate::mqtt::writer::Writer;
use crate::mqtt::{Error, ReasonCode, UserProperties};

/// DISCONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnect {
    /// Why; success in 3.1.1.
    pub reason: ReasonCode,
    /// A new session expiry interval, in seconds; a client's DISCONNECT only.
    pub session_expiry_interval: Option<u32>,
    /// Another server to use.
    pub server_reference: Option<ByteString>,
    /// Text for a person.
    pub reason_string: Option<ByteString>,
    /// User properties.
    pub user: UserProperties,
}

impl Disconnect {
    /// Without properties.
    #[must_use]
    pub fn new(reason: ReasonCode) -> Self {
        Self {
            reason,
            session_expiry_interval: None,
            server_reference: None,
            reason_string: None,
            user: UserProperties::default(),
        }
    }

    pub(in crate::mqtt) fn read(version: Version, mut packet: Reader) -> Result<Self, Error> {
        let mut this = Self::new(ReasonCode::Success);
        // MQTT 5 leaves out a reason of success, and an empty property section behind any reason (§3.14.2.1).
        if version == Version::V5 && !packet.is_empty() {
            this.reason = packet.reason()?;
            if !packet.is_empty() {
                this.read_properties(&mut packet)?;
            }
        }
        packet.end()?;
        Ok(this)
    }

    fn read_properties(&mut self, packet: &mut Reader) -> Result<(), Error> {
        let mut value = Properties::read(packet)?;
        while let Some(property) = value.next()? {
            match property {
                Property::SessionExpiryInterval => {
                    self.session_expiry_interval = Some(value.u32()?);
                }
                Property::ServerReference => self.server_reference = Some(value.string()?),
                Property::ReasonString => self.reason_string = Some(value.string()?),
                _ => return Err(value.not_allowed()),
            }
        }
        self.user = value.into_user();
        Ok(())
    }

    pub(in crate::mqtt) fn write(&self, version: Version, w: &mut Writer<'_>) {
        let has_properties = self.session_expiry_interval.is_some()
            || self.server_reference.is_some()
            || self.reason_string.is_some()
            || !self.user.is_empty();
        if version == Version::V3_1_1 || self.reason == ReasonCode::Success && !has_properties {
            return;
        }
        w.u8(self.reason.value());
        // An empty section may be left out, but clients in the field (rumqttc) then wait for it and miss the reason.
        w.section(|w| {
            let expiry = self.session_expiry_interval;
            w.property_u32(Property::SessionExpiryInterval, expiry);
            w.property_string(Property::ServerReference, self.server_reference.as_ref());
            w.property_string(Property::ReasonString, self.reason_string.as_ref());
            w.user_properties(&self.user);
        });
    }

    pub(in crate::mqtt) fn check(&self) -> Result<(), Error> {
        // [MQTT-3.14.2-1]
        self.reason.check("DISCONNECT", Carrier::Disconnect)
    }
}
