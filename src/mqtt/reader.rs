//! Reads the data representations of MQTT (§1.5) off the front of one packet.
//!
//! Strings and binary data are slices that share the packet's buffer. Each read names its field, so that an
//! error says where the packet is wrong. A reader never looks behind the end of its packet or property section.

use bytes::{Buf, Bytes};
use bytestring::ByteString;

use super::{Error, PacketId, QoS, ReasonCode};

/// The bytes of a packet, or of its property section, that are not read yet.
pub(super) struct Reader {
    rest: Bytes,
    packet: &'static str,
}

impl Reader {
    pub(super) fn new(rest: Bytes, packet: &'static str) -> Self {
        Self { rest, packet }
    }

    /// What is left; the reader's last use.
    pub(super) fn into_rest(self) -> Bytes {
        self.rest
    }

    pub(super) fn rest(&self) -> &Bytes {
        &self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses bytes behind the last field.
    pub(super) fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("end", "no bytes behind the last field"))
        }
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// A Variable Byte Integer (§1.5.5).
    pub(super) fn variable(&mut self, field: &'static str) -> Result<u32, Error> {
        let read = variable_byte_integer(&self.rest);
        let read = read.map_err(|expected| self.malformed(field, expected))?;
        let (value, width) = read.ok_or_else(|| self.cut(field))?;
        self.rest.advance(width);
        Ok(value)
    }

    /// Binary Data (§1.5.6): any bytes.
    pub(super) fn binary(&mut self, field: &'static str) -> Result<Bytes, Error> {
        let length = self.u16(field)?;
        self.split(usize::from(length), field)
    }

    /// A UTF-8 Encoded String (§1.5.4). U+FEFF at its start is kept. // [MQTT-1.5.4-3]
    pub(super) fn string(&mut self, field: &'static str) -> Result<ByteString, Error> {
        let bytes = self.binary(field)?;
        // [MQTT-1.5.4-1]: Rust's UTF-8 has no surrogates and no overlong forms.
        let text = ByteString::try_from(bytes).ok();
        // [MQTT-1.5.4-2]
        text.filter(|text| !text.as_bytes().contains(&0))
            .ok_or_else(|| self.malformed(field, "UTF-8 without U+0000"))
    }

    /// The packet's identifier, never zero. // [MQTT-2.2.1-3]
    pub(super) fn packet_id(&mut self) -> Result<PacketId, Error> {
        let id = self.u16("packet identifier")?;
        PacketId::new(id).ok_or_else(|| self.protocol("packet identifier", "1 to 65,535"))
    }

    /// Checks two bits of a flags byte.
    pub(super) fn qos(&self, bits: u8, field: &'static str) -> Result<QoS, Error> {
        QoS::try_from(bits).map_err(|error| Error {
            packet: self.packet,
            field,
            ..error
        })
    }

    /// A defined Reason Code; which packets may carry it is for the packet to check.
    pub(super) fn reason(&mut self) -> Result<ReasonCode, Error> {
        let value = self.u8("reason code")?;
        ReasonCode::from_value(value)
            .ok_or_else(|| self.malformed("reason code", "a code that MQTT 5 defines"))
    }

    /// The property section (§2.2.2): its length, then that many bytes.
    pub(super) fn section(&mut self) -> Result<Self, Error> {
        // [MQTT-2.2.2-1]: without properties there is still a length of zero.
        let length = self.variable("property length")?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let rest = self.split(length, "property length")?;
        Ok(Self::new(rest, self.packet))
    }

    /// An error of this packet: it does not parse.
    pub(super) fn malformed(&self, field: &'static str, expected: &'static str) -> Error {
        Error::malformed(self.packet, field, expected)
    }

    /// An error of this packet: it parses, against the rules.
    pub(super) fn protocol(&self, field: &'static str, expected: &'static str) -> Error {
        Error::protocol(self.packet, field, expected)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let Some(value) = self.rest.first_chunk().copied() else {
            return Err(self.cut(field));
        };
        self.rest.advance(N);
        Ok(value)
    }

    fn split(&mut self, length: usize, field: &'static str) -> Result<Bytes, Error> {
        if length > self.rest.len() {
            return Err(self.cut(field));
        }
        Ok(self.rest.split_to(length))
    }

    fn cut(&self, field: &'static str) -> Error {
        self.malformed(field, "more bytes than there are")
    }
}

/// The Variable Byte Integer (§1.5.5) at the front of `src` and its width in bytes; `None`: it is not complete.
///
/// # Errors
/// What was expected, if it has more than four bytes or more than it needs.
pub(super) fn variable_byte_integer(src: &[u8]) -> Result<Option<(u32, usize)>, &'static str> {
    let mut value = 0;
    for (index, byte) in src.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // [MQTT-1.5.5-1]: a last byte of zero adds nothing to those before it.
            if *byte == 0 && index > 0 {
                return Err("no more bytes than the number needs");
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if src.len() < 4 {
        Ok(None)
    } else {
        Err("at most four bytes")
    }
}
