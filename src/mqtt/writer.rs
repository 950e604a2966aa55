//! Writes the data representations of MQTT (§1.5), or only counts what they take.
//!
//! Counting and writing run the same code, so that a length field cannot disagree with what follows it, and a
//! packet that cannot be written is found before the first byte of it is.

use bytes::{BufMut, BytesMut};

use super::Error;

/// The largest Variable Byte Integer.
pub(super) const VARIABLE_MAX: u32 = 268_435_455;

/// Where a packet's bytes go.
pub(super) struct Writer<'a> {
    packet: &'static str,
    /// Absent: count only.
    dst: Option<&'a mut BytesMut>,
    bytes: usize,
    fault: Option<Error>,
}

impl<'a> Writer<'a> {
    pub(super) fn to(packet: &'static str, dst: &'a mut BytesMut) -> Self {
        Self {
            packet,
            dst: Some(dst),
            bytes: 0,
            fault: None,
        }
    }

    /// How many bytes `write` would write, or why it cannot.
    pub(super) fn count(packet: &'static str, write: impl Fn(&mut Self)) -> Result<usize, Error> {
        let mut counter = Self {
            packet,
            dst: None,
            bytes: 0,
            fault: None,
        };
        write(&mut counter);
        counter.fault.map_or(Ok(counter.bytes), Err)
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.raw(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    /// A Variable Byte Integer (§1.5.5), in as few bytes as it needs.
    pub(super) fn variable(&mut self, field: &'static str, value: usize) {
        if !u32::try_from(value).is_ok_and(|value| value <= VARIABLE_MAX) {
            self.refuse(field, "at most 268,435,455");
        }
        let mut rest = value;
        loop {
            let [low, ..] = (rest & 0x7f).to_le_bytes();
            rest >>= 7;
            self.u8(if rest == 0 { low } else { low | 0x80 });
            if rest == 0 {
                return;
            }
        }
    }

    /// Binary Data (§1.5.6).
    pub(super) fn binary(&mut self, field: &'static str, value: &[u8]) {
        match u16::try_from(value.len()) {
            Ok(length) => self.u16(length),
            Err(_) => self.refuse(field, "at most 65,535 bytes"),
        }
        self.raw(value);
    }

    /// A UTF-8 Encoded String (§1.5.4).
    pub(super) fn string(&mut self, field: &'static str, value: &str) {
        // [MQTT-1.5.4-2]: the peer would close the connection.
        if value.as_bytes().contains(&0) {
            self.refuse(field, "no U+0000");
        }
        self.binary(field, value.as_bytes());
    }

    /// Bytes without a length.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(dst) = &mut self.dst {
            dst.put_slice(bytes);
        }
    }

    /// A property section (§2.2.2): the length of what `write` writes, then that.
    pub(super) fn section(&mut self, write: impl Fn(&mut Writer<'_>)) {
        match Writer::count(self.packet, &write) {
            Ok(length) => self.variable("property length", length),
            Err(error) => self.fault = self.fault.or(Some(error)),
        }
        write(self);
    }

    /// Keeps the first fault.
    fn refuse(&mut self, field: &'static str, expected: &'static str) {
        let error = Error::protocol(self.packet, field, expected);
        self.fault.get_or_insert(error);
    }
}
